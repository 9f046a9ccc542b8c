package asowner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/evidence"
	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/narrate"
)

// saved is an export that is to be kept: in which file, named by which flag, and of what.
type saved struct {
	flag, file string
	kind, id   string // of the subject; "" for the workspace, of which there is one
}

// free refuses a file that exists.
func free(file, flag string) error {
	if _, err := os.Lstat(file); err == nil {
		return command.Usage("%s: %s exists and was left alone; give another name", flag, file)
	}
	return nil
}

// keep writes an export to its new file and prints its head.
func (c *signedIn) keep(s command.Streams, to saved, body []byte) error {
	var export struct {
		Format  string
		Subject struct{ Kind, ID string }
		Head    string
		Count   int64
	}
	if err := json.Unmarshal(body, &export); err != nil || export.Format != evidence.ExportFormat || export.Subject.Kind != to.kind || to.id != "" && export.Subject.ID != to.id {
		return fmt.Errorf("the answer is not the evidence of this %s; nothing was written", to.kind)
	}
	err := client.SaveNew(to.file, body)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return command.Usage("%s: %w", to.flag, err)
	case err != nil:
		return fmt.Errorf("%s: %w", to.flag, err)
	}
	head := evidence.Link{Sequence: export.Count, Hash: export.Head}.String()
	if c.JSON {
		about := map[string]any{"file": to.file, "bytes": len(body), "head": head}
		switch {
		case to.kind == "run":
			about["runId"] = to.id
		case to.id != "":
			about["id"] = to.id
		}
		return json.NewEncoder(s.Out).Encode(about)
	}
	fmt.Fprintf(s.Err, "Wrote %s. Its head follows; keep it elsewhere. Next: countersign verify %s --key evidence.pub --head HEAD\n", to.file, command.Quoted(to.file))
	_, err = fmt.Fprintln(s.Out, narrate.Plain(head))
	return err
}
