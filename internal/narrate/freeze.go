package narrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Standing is what is told of how the workspace stands with its freeze (requirement L-8).
type Standing struct {
	Frozen     *bool       `json:"frozen"`
	Epoch      int64       `json:"epoch"`
	Since      string      `json:"since"`
	Reason     string      `json:"reason"`
	Changed    bool        `json:"changed"`
	Executions []execution `json:"executions"` // without an outcome
	Settled    []execution `json:"settled"`    // that had none when it was frozen
	Last       *struct {
		Since          string  `json:"since"`
		Until          *string `json:"until"`
		Reason         string  `json:"reason"`
		UnfreezeReason string  `json:"unfreezeReason"`
	} `json:"last"`
}

type execution struct {
	ExecutionID  string `json:"executionId"`
	RunID        string `json:"runId"`
	OperationID  string `json:"operationId"`
	State        string `json:"state"`
	DispatchedAt string `json:"dispatchedAt"`
}

const erased = "(the reason was erased)"

// ParseStanding reads what the routes of a freeze answer.
func ParseStanding(raw []byte) (*Standing, error) {
	var s Standing
	if err := json.Unmarshal(raw, &s); err != nil || s.Frozen == nil {
		return nil, fmt.Errorf("narrate: the answer does not say how the workspace stands: %s", plain(string(raw)))
	}
	return &s, nil
}

// IsFrozen reports whether a freeze stands.
func (s *Standing) IsFrozen() bool { return *s.Frozen }

// Freeze is the one that stands, in a few words.
func (s *Standing) Freeze() string {
	return fmt.Sprintf("freeze %d since %s: %s", s.Epoch, plain(s.Since), or(plain(s.Reason), erased))
}

// Open counts the executions without an outcome: those whose outcome is waited for, and
// those that are unconfirmed.
func (s *Standing) Open() (inFlight, unconfirmed int) {
	for _, x := range s.Executions {
		if x.State == "unconfirmed" {
			unconfirmed++
		} else {
			inFlight++
		}
	}
	return inFlight, unconfirmed
}

// Answer writes what became of a request to freeze or to unfreeze, and what has no
// outcome and what got its own since. origin is where the owner finds the runs.
func (s *Standing) Answer(w io.Writer, origin string) error {
	switch {
	case s.IsFrozen() && s.Changed:
		return s.tell(w, origin, "The workspace is now frozen: "+s.Freeze())
	case s.IsFrozen():
		return s.tell(w, origin, "The workspace is already frozen: "+s.Freeze())
	case s.Changed:
		return s.tell(w, origin, fmt.Sprintf("Freeze %d of the workspace is lifted.", s.Epoch))
	}
	return s.State(w, origin)
}

// State writes how the workspace stands, and what has no outcome.
func (s *Standing) State(w io.Writer, origin string) error {
	switch {
	case s.IsFrozen():
		return s.tell(w, origin, "The workspace is frozen: "+s.Freeze())
	case s.Last != nil && s.Last.Until != nil:
		return s.tell(w, origin, fmt.Sprintf("The workspace is not frozen. Freeze %d stood from %s until %s.\nfrozen:  %s\nlifted:  %s",
			s.Epoch, plain(s.Last.Since), plain(*s.Last.Until), or(plain(s.Last.Reason), erased), or(plain(s.Last.UnfreezeReason), erased)))
	}
	return s.tell(w, origin, "The workspace is not frozen.")
}

func (s *Standing) tell(w io.Writer, origin, how string) error {
	var b bytes.Buffer
	inFlight, unconfirmed := s.Open()
	fmt.Fprintf(&b, "%s\nin flight: %s; unconfirmed: %s", how, count(inFlight), count(unconfirmed))
	if n := len(s.Settled); n > 0 {
		fmt.Fprintf(&b, "; settled since the freeze: %d", n)
	}
	b.WriteString("\n")
	for _, x := range append(slices.Clone(s.Executions), s.Settled...) {
		what := plain(x.State)
		if what == "dispatched" {
			what = "in flight"
		}
		fmt.Fprintf(&b, "%s %s of run %s: %s, dispatched at %s\n", what, plain(x.ExecutionID), plain(x.RunID), plain(x.OperationID), plain(x.DispatchedAt))
	}
	if unconfirmed > 0 {
		fmt.Fprintf(&b, "What is unconfirmed may have had its effect, and may be older than any freeze. It stays so, frozen or not, until its owner has it\nlooked up on the page of its run: %s/runs/ID\n", origin)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func count(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
