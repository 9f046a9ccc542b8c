package asowner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/project"
	"countersign/internal/narrate"
)

type publishCommand struct {
	Folder string `arg:"" name:"folder" help:"The folder of documents (*.md) and test cases (tests/*.json)."`
	Env    string `required:"" name:"env" enum:"production,staging" placeholder:"production|staging" help:"The environment that hands it out."`
	Draft  bool   `help:"In staging: save it as the draft, which the next one replaces."`
	DryRun bool   `help:"Check the folder and print its digest; no server is asked."`
	inProject

	every time.Duration // between lines of progress; 0: progressEvery
}

func (publishCommand) Help() string {
	return `Reads the folder, sends what the server does not have yet, and publishes all of it as the next Build of the
environment, from which context is handed out then. A document is Markdown with front matter: id and title, and if
need be tags, profiles, author, source, supersedes and conflicts; docs/context.md describes it. Prints environment and
number, digest, what the Build holds, and what differs from the one before.

When something is wrong, stderr has a line for each fault, nothing is published and the status is 2: FILE:LINE: TEXT,
FILE: TEXT when it is about a whole file, TEXT alone when it is about the folder. With --json stdout has an object for
each: file, line and fault, with an empty file and line 0 where there is none.

The same content has the same digest everywhere, and what the environment hands out already is not published again.
After a lost answer or an interrupted upload give the same command again: what has arrived is not sent twice. What
takes long tells on stderr how far it is.

Example: countersign context publish docs --project acme/support --env production --dir D
Example: countersign context publish docs --project acme/support --env staging --draft --dry-run` + ownerStatus
}

func (c *publishCommand) Run(ctx context.Context, s command.Streams) error {
	if c.Draft && c.Env != project.Staging {
		return command.Usage("--draft: only staging has a draft")
	}
	root, err := os.OpenRoot(c.Folder)
	if err != nil {
		return command.Usage("%s is no folder that can be read; name the one that the documents are in", c.Folder)
	}
	defer root.Close()
	told := c.progress(s)
	folder, faults, err := content.ReadFolder(root.FS(), func(done, total int) { told.say("Read %d of %d files.", done, total) })
	if err != nil {
		return command.Usage("%s: %w", c.Folder, err)
	}
	if len(faults) > 0 {
		return c.faulty(s, faults)
	}
	raw, digest, err := folder.Manifest.Encode()
	if err != nil {
		return command.Usage("%s: %w", c.Folder, err)
	}
	// The rest of the body is some words around the manifest.
	if len(raw) > edge.LargestBody-1024 {
		return command.Usage("%s: the list of its documents and test cases has %d bytes, and a server takes %d; shorten ids and titles, or make two projects", c.Folder, len(raw), edge.LargestBody-1024)
	}
	if n := len(folder.Skipped); n > 0 && !c.JSON {
		fmt.Fprintf(s.Err, "Hidden files and folders are never published; left out: %d, the first is %s.\n", n, command.Quoted(folder.Skipped[0]))
	}
	if c.DryRun {
		return c.checked(s, folder, digest)
	}
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		err := c.send(ctx, o, folder, told)
		if _, refused := errors.AsType[*client.RefusedError](err); err != nil && !refused {
			return fmt.Errorf("the documents did not all arrive, give the same command again: %w", err)
		}
		if err != nil {
			return err
		}
		o.HTTP.Timeout = publishTime
		var r client.Reply
		told.during("The documents are there; the server makes the Build", func() {
			r, err = o.PublishBuild(ctx, c.Project.id(), map[string]any{"environment": c.Env, "draft": c.Draft, "manifest": json.RawMessage(raw)})
		})
		if err = repeatable(r, err, "give the same command again"); err != nil {
			return err
		}
		if c.JSON {
			return printLine(s.Out, r.Body)
		}
		b, err := narrate.ParseBuild(r.Body)
		if err != nil {
			return err
		}
		if b.Digest != digest {
			return fmt.Errorf("the server published another digest, %.64q: it is of another version; have both brought up to date", b.Digest)
		}
		return narrate.Published(s.Out, b)
	})
}

// publishTime is longer than a server lets any request go on.
const publishTime = 100 * time.Second

// faulty reports what is wrong with a folder.
func (c *publishCommand) faulty(s command.Streams, faults []content.Fault) error {
	files := map[string]bool{}
	for _, f := range faults {
		if f.File != "" { // else it is about the whole folder
			files[f.File] = true
		}
		if !c.JSON {
			fmt.Fprintln(s.Err, f)
			continue
		}
		if err := json.NewEncoder(s.Out).Encode(map[string]any{"file": f.File, "line": f.Line, "fault": f.Text}); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return command.Usage("%s: faults: %d; nothing was published", c.Folder, len(faults))
	}
	return command.Usage("%s: faults: %d, in files: %d; nothing was published", c.Folder, len(faults), len(files))
}

// checked prints what would be published.
func (c *publishCommand) checked(s command.Streams, f *content.Folder, digest string) error {
	m := f.Manifest
	if c.JSON {
		return json.NewEncoder(s.Out).Encode(map[string]any{
			"environment": c.Env, "draft": c.Draft, "digest": digest, "documents": len(m.Documents), "cases": len(m.Cases), "bytes": m.Bytes(), "dryRun": true,
		})
	}
	_, err := fmt.Fprintf(s.Out, "The folder can be published; nothing was sent.\n  digest   %s\n  holds    %s\n", digest, narrate.Holds(int64(len(m.Documents)), int64(len(m.Cases)), m.Bytes()))
	return err
}

const (
	// askedAtOnce is how many hashes a server is asked about at once: with more the
	// request would not fit.
	askedAtOnce = 900
	// batchBytes bounds the documents of one request, in bytes as JSON, so that a request
	// arrives within its time at 100 KB a second. A single document is always sent.
	batchBytes = 2 << 20
	// batchDocuments is the most that a server takes at once.
	batchDocuments = 1000
)

// send stores the documents that the server does not have.
func (c *publishCommand) send(ctx context.Context, o *client.Owner, f *content.Folder, told *progress) error {
	byHash := map[string]*content.Document{}
	var hashes []string
	for _, d := range f.Documents {
		if byHash[d.SHA256] == nil {
			hashes = append(hashes, d.SHA256)
		}
		byHash[d.SHA256] = d
	}
	var missing []string
	for part := range slices.Chunk(hashes, askedAtOnce) {
		list, err := o.MissingDocuments(ctx, c.Project.id(), part)
		if err != nil {
			return err
		}
		missing = append(missing, list...)
	}
	batch, size := []client.Document{}, 0
	for i, hash := range missing {
		d := byHash[hash]
		if d == nil {
			return fmt.Errorf("the server lacks a document that it was not asked about: %.64q", hash)
		}
		raw, err := json.Marshal(d.Raw)
		if err != nil {
			return err
		}
		if len(batch) == batchDocuments || len(batch) > 0 && size+len(raw) > batchBytes {
			if err := o.StoreDocuments(ctx, c.Project.id(), batch); err != nil {
				return err
			}
			told.say("Stored %d of %d documents.", i, len(missing))
			batch, size = batch[:0], 0
		}
		batch, size = append(batch, client.Document{SHA256: hash, Text: d.Raw}), size+len(raw)
	}
	if len(batch) == 0 {
		return nil
	}
	return o.StoreDocuments(ctx, c.Project.id(), batch)
}

// progress tells how far something is that takes long: never before its time, and never
// more often.
type progress struct {
	w     io.Writer
	every time.Duration
	last  time.Time
}

const progressEvery = 2 * time.Second

func (c *publishCommand) progress(s command.Streams) *progress {
	p := &progress{s.Err, c.every, time.Now()}
	if p.every == 0 {
		p.every = progressEvery
	}
	if c.JSON {
		p.w = io.Discard
	}
	return p
}

// during tells again and again that something goes on, and for how long.
func (p *progress) during(what string, do func()) {
	began, ended := time.Now(), make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(p.every):
				fmt.Fprintf(p.w, "%s: %v.\n", what, time.Since(began).Round(time.Second))
			}
		}
	})
	do()
	close(ended)
	telling.Wait()
}

func (p *progress) say(format string, args ...any) {
	if now := time.Now(); now.Sub(p.last) >= p.every {
		p.last = now
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}
