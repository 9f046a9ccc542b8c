package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/audit"
)

type verifyCommand struct {
	Files    []string `arg:"" name:"file" help:"The export. With two of one subject, also whether one history forks from the other."`
	Keys     []string `name:"key" required:"" sep:"none" placeholder:"FILE" help:"evidence.pub of the issuer, obtained from elsewhere. May be given several times, older keys first."`
	StoreKey string   `placeholder:"FILE" help:"receipt.pub of the store, obtained from the store. Default: as attested by the control plane."`
	Head     string   `placeholder:"SEQ:HASH" help:"A head known from elsewhere, such as a run's page; the chain must hold it."`
	Batch    bool     `help:"Check signatures in batches, by the rule of ZIP 215. Quicker; see above."`
	JSON     bool     `name:"json" help:"Print the report as one JSON object."`
}

func (verifyCommand) Help() string {
	return `Trusts nothing in the file: keys come from --key. Checks every hash and signature, the order, head and
count, the receipts of the store, and replays the run by the rules of its state machine; every unlawful
transition is named. Says what it cannot show, and by which rule signatures were accepted.

Without --batch that rule is RFC 8032 as the Go standard library applies it. With --batch it is ZIP 215: it
accepts all that the first rule accepts, and some signatures beside them that only the holder of the key can
make. So an export can pass with --batch and fail without; never the other way round. When a batch does not
hold, its signatures are checked one by one and each bad one is named.

Two exports of one subject are compared when the integrity of both holds: only then two histories are the
doing of the key's holder. What somebody else has altered differs too, and is no fork.

Example: countersign verify evidence.json --key evidence.pub --store-key receipt.pub

Status 0: everything holds. 1: something does not, or lawfulness cannot be proved. 2: not an export.`
}

// keyFileLimit bounds what is read of a key file in bytes.
const keyFileLimit = 64 << 10

func (c *verifyCommand) Run(s streams) error {
	if len(c.Files) > 2 {
		return usage("verify: want one export, or two of one subject")
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	result := verification{}
	for _, name := range c.Files {
		report, err := verifyFile(name, options)
		if err != nil {
			return err
		}
		result.Reports = append(result.Reports, fileReport{name, report})
	}
	if len(c.Files) == 2 {
		if result.NotCompared = result.incomparable(); result.NotCompared == "" {
			result.Fork, err = compare(c.Files[0], c.Files[1])
		}
		if err != nil {
			return err
		}
	}
	if err := result.print(s.Out, c.JSON); err != nil {
		return err
	}
	if !result.ok() {
		return errDiffers
	}
	return nil
}

func (c *verifyCommand) options() (o audit.Options, err error) {
	for _, name := range c.Keys {
		list, err := readKeys(name, "--key", evidence.ParseKeys)
		if err != nil {
			return o, err
		}
		o.Keys = append(o.Keys, list...)
	}
	if c.StoreKey != "" {
		if o.StoreKeys, err = readKeys(c.StoreKey, "--store-key", dispatch.ParseKeys); err != nil {
			return o, err
		}
	}
	o.Batch = c.Batch
	if c.Head != "" {
		if o.Head, err = evidence.ParseLink(c.Head); err != nil {
			return o, usage("--head: %w", err)
		}
	}
	return o, nil
}

// readKeys reads a *.pub file.
func readKeys[T any](name, flag string, parse func([]byte) (T, error)) (list T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return list, usage("%s: %w", flag, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, keyFileLimit))
	if err == nil {
		list, err = parse(raw)
	}
	if err != nil {
		return list, usage("%s %s: %w", flag, name, err)
	}
	return list, nil
}

func verifyFile(name string, o audit.Options) (*audit.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage("verify: %w", err)
	}
	defer f.Close()
	report, err := audit.Verify(f, o)
	if _, ok := errors.AsType[*evidence.FormatError](err); ok {
		return nil, usage("verify: %s is not a countersign export: %s", name, strings.TrimPrefix(err.Error(), "evidence: "))
	}
	if err != nil {
		return nil, usage("verify: %s: %w", name, err)
	}
	return report, nil
}

func compare(a, b string) (*evidence.Divergence, error) {
	var files [2]*os.File
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("verify: %w", err)
		}
		defer f.Close()
		files[i] = f
	}
	d, err := evidence.Fork(files[0], files[1])
	if errors.Is(err, evidence.ErrOtherSubject) {
		return nil, usage("verify: %s and %s are about different subjects; verify each alone", a, b)
	}
	if err != nil {
		return nil, usage("verify: %w", err)
	}
	return &d, nil
}

// verification is what one command has found.
type verification struct {
	Reports []fileReport         `json:"reports"`
	Fork    *evidence.Divergence `json:"comparison"` // with two files; nil when they were not compared
	// NotCompared says why two files were not compared.
	NotCompared string `json:"notCompared,omitempty"`
}

type fileReport struct {
	File string `json:"file"`
	*audit.Report
}

// incomparable says why the exports cannot show a fork, or "". A chain whose
// integrity does not hold is nobody's history: any text editor makes one. An
// unlawful chain that its key signed is the doing of the key's holder.
func (v *verification) incomparable() string {
	var altered []string
	for _, r := range v.Reports {
		if !r.Report.Report.OK() {
			altered = append(altered, r.File)
		}
	}
	if len(altered) == 0 {
		return ""
	}
	return fmt.Sprintf("the integrity of %s does not hold; only two exports that are both intact show whether one history forks from the other", strings.Join(altered, " and "))
}

func (v *verification) ok() bool {
	for _, r := range v.Reports {
		if !r.OK() {
			return false
		}
	}
	return v.Fork == nil || v.Fork.Fork == nil
}

func (v *verification) print(w io.Writer, asJSON bool) error {
	if asJSON {
		if len(v.Reports) == 1 {
			return json.NewEncoder(w).Encode(v.Reports[0])
		}
		return json.NewEncoder(w).Encode(struct {
			*verification
			Verified bool `json:"verified"`
		}{v, v.ok()})
	}
	for i, r := range v.Reports {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := r.Print(w, r.File); err != nil {
			return err
		}
	}
	if v.NotCompared != "" {
		_, err := fmt.Fprintf(w, "\nComparison\n  NOT COMPARED  %s\n", v.NotCompared)
		return err
	}
	if v.Fork == nil {
		return nil
	}
	d := v.Fork
	fmt.Fprintf(w, "\nComparison\n  the first %d events are the same; the exports hold %d and %d\n", d.Common, d.Counts[0], d.Counts[1])
	if d.Fork == nil {
		_, err := fmt.Fprintln(w, "  NO FORK  one goes on where the other ends")
		return err
	}
	for i, e := range d.Fork {
		fmt.Fprintf(w, "  %s goes on with %s, event %d (%s), hash %s\n", v.Reports[i].File, e.Type, e.Sequence, e.ID, e.Hash)
	}
	_, err := fmt.Fprintln(w, "  FORK  two histories of one subject")
	return err
}
