package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// resultsFile is where test keeps what became of every test, for requirements.
const resultsFile = "bin/test-results.json"

// results are the outcomes of one run, by package and test, and the tree that they are of.
type results struct {
	Tree  string                       `json:"tree"`
	Tests map[string]map[string]string `json:"tests"`
}

// errNotKept is wrapped by errors about results that there are not, or that are of another tree.
var errNotKept = errors.New("no results of this tree are kept")

// outcomes returns what became of every test that ended.
func (r *report) outcomes() outcomes {
	o := make(outcomes)
	for id, t := range r.tests {
		if t.outcome != "" {
			o[id] = t.outcome
		}
	}
	return o
}

// keep writes the outcomes of a run over the tree with this hash. Of a tree that
// changed meanwhile they say nothing: then what was kept before is removed.
func (o outcomes) keep(file, root, tree string) error {
	now, err := hashTree(root)
	if err != nil {
		return err
	}
	if now != tree {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return fmt.Errorf("%w: files changed while the tests ran", errNotKept)
	}
	kept := results{tree, make(map[string]map[string]string)}
	for id, outcome := range o {
		if kept.Tests[id.pkg] == nil {
			kept.Tests[id.pkg] = make(map[string]string)
		}
		kept.Tests[id.pkg][id.test] = outcome
	}
	text, err := json.MarshalIndent(kept, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// keptOutcomes reads what a run over exactly this tree has kept.
func keptOutcomes(file, root string) (outcomes, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotKept
	}
	if err != nil {
		return nil, err
	}
	var kept results
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	tree, err := hashTree(root)
	if err != nil {
		return nil, err
	}
	if kept.Tree != tree {
		return nil, fmt.Errorf("%w, those in %s are of another", errNotKept, file)
	}
	o := make(outcomes)
	for pkg, tests := range kept.Tests {
		for test, outcome := range tests {
			o[testID{pkg, test}] = outcome
		}
	}
	return o, nil
}

// hashTree returns the hash of every file below root with its name, without what is
// built, installed or git's own.
func hashTree(root string) (string, error) {
	whole := sha256.New()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && (name == ".git" || name == "bin" || name == "node_modules"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		var content []byte
		if entry.Type()&fs.ModeSymlink != 0 {
			to, linkErr := os.Readlink(file)
			content, err = []byte(to), linkErr
		} else {
			content, err = os.ReadFile(file)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(whole, "%s %x\n", filepath.ToSlash(name), sha256.Sum256(content))
		return err
	})
	return hex.EncodeToString(whole.Sum(nil)), err
}
