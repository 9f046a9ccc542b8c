package narrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// freeze is what is told of how the workspace stands (requirement L-8).
type freeze struct {
	Frozen     *bool  `json:"frozen"`
	Epoch      int64  `json:"epoch"`
	Since      string `json:"since"`
	Reason     string `json:"reason"`
	Changed    bool   `json:"changed"`
	Executions []struct {
		ExecutionID  string `json:"executionId"`
		RunID        string `json:"runId"`
		OperationID  string `json:"operationId"`
		State        string `json:"state"`
		DispatchedAt string `json:"dispatchedAt"`
	} `json:"executions"`
}

// Freeze writes what the answer to a freeze or its end says: how the workspace stands,
// and what was dispatched and has no outcome, an execution a line.
func Freeze(w io.Writer, raw []byte) error {
	var f freeze
	if err := json.Unmarshal(raw, &f); err != nil || f.Frozen == nil {
		return fmt.Errorf("narrate: the answer does not say how the workspace stands: %s", plain(string(raw)))
	}
	is := "is already"
	if f.Changed {
		is = "is now"
	}
	var b bytes.Buffer
	switch {
	case *f.Frozen:
		fmt.Fprintf(&b, "The workspace %s frozen: freeze %d since %s: %s\n", is, f.Epoch, plain(f.Since), or(plain(f.Reason), "(the reason was erased)"))
	case f.Changed:
		fmt.Fprintf(&b, "Freeze %d of the workspace is lifted.\n", f.Epoch)
	default:
		fmt.Fprintln(&b, "The workspace is not frozen.")
	}
	for _, x := range f.Executions {
		what := "in flight"
		if x.State == "unconfirmed" {
			what = "unconfirmed"
		}
		fmt.Fprintf(&b, "%s %s of run %s: %s, dispatched at %s\n", what, plain(x.ExecutionID), plain(x.RunID), plain(x.OperationID), plain(x.DispatchedAt))
	}
	_, err := w.Write(b.Bytes())
	return err
}
