package incidentpage

import (
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"countersign/evidence"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/console/frame"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// Path is where the page is.
const Path = "/incident"

// apart is how many of the newest receipts are shown at once; the others can be unfolded.
const apart = 12

// Plane is what the page reads.
type Plane interface {
	// Form returns the snapshot of a cookie's session and the nonce of its approval form.
	Form(ctx context.Context, cookie string) (*control.Snapshot, string, error)
}

//go:embed template/*.html
var templates embed.FS

//go:embed asset/*
var assets embed.FS

var views = sync.OnceValue(func() frame.Views { return frame.Parse(templates, words) })

// Register adds the page, which everybody may see.
func Register(f *frame.Frame, p Plane) {
	f.Assets(assets)
	f.Asset("incident-tools.json", tools())
	f.Public(Path, "Incident", views(), func(r *http.Request) (*frame.Page, error) {
		cookie, err := runbookhttp.SessionOf(r)
		if err != nil {
			return nil, err
		}
		s, nonce, err := p.Form(r.Context(), cookie)
		if err != nil {
			return nil, err
		}
		return &frame.Page{Template: "incident", Title: "Incident " + s.Incident.ID, Now: s.Now, Own: "incident", Data: show(s, nonce)}, nil
	})
}

// shown is what the page shows.
type shown struct {
	*control.Snapshot
	Nonce    string // of the approval form; "" when there is nothing to approve anew
	Measured []measure
	Options  []option
	Waits    *action     // nil: nothing is staged
	Would    *option     // what the staged mitigation would do; nil: nothing is staged
	Last     *action     // nil: nothing was executed
	Effect   []effect    // of the last execution
	Recent   []receipt   // newest first
	Earlier  []receipt   // the same, from where it gets long
	Tools    []Tool      // in the order of the workflow
	Returned int         // receipts that were read and verified
	KeyID    string      // of the newest receipt; "" without one
	Seen     [3]verified // what was verified, one by one
}

// option is a mitigation with its projected effect, compared with the measures as they are.
type option struct {
	incident.Mitigation
	Measured []measure
	Missed   string // names of the targets that it would miss; "" for none
	Worse    string // names of the measures that it would make worse; "" for none
	Staged   bool
}

func optionOf(m incident.Mitigation, now incident.Metrics, of incident.Incident) option {
	o := option{Mitigation: m, Measured: measured(m.Projected, now, of)}
	var missed, worse []string
	for _, each := range o.Measured {
		if !each.Meets {
			missed = append(missed, each.Name)
		}
		if each.Worse {
			worse = append(worse, each.Name)
		}
	}
	o.Missed, o.Worse = strings.Join(missed, ", "), strings.Join(worse, ", ")
	return o
}

// action is one exact action: all that an execution of it sends.
type action struct {
	Title, MitigationID string
	Version             int64
	Digest, Key         string
}

// verified is one of the properties of the receipts that were read.
type verified struct {
	Name string
	OK   bool
}

// receipt is one receipt as it is listed.
type receipt struct {
	incident.Receipt
	Sequence int64
	At       string
	Hash     string
	Damaged  bool // what is stored cannot be read as a receipt
}

// unreadable is the outcome that is shown of a damaged receipt.
const unreadable = "unreadable"

// Arrival says how an approval reached the server; "" of another receipt.
func (r *receipt) Arrival() string {
	if a := r.Result.Approval; a != nil {
		return a.Arrival
	}
	return ""
}

func show(s *control.Snapshot, nonce string) *shown {
	d := &shown{Snapshot: s, Nonce: nonce, Measured: measured(s.Metrics, s.Incident.Baseline, s.Incident), Tools: Tools, Returned: len(s.Receipts.Items)}
	d.Seen = [3]verified{{"content hashes", s.Receipts.Verified.Hashes}, {"links", s.Receipts.Verified.Links}, {"signatures", s.Receipts.Verified.Signatures}}
	titles := map[string]string{}
	for _, m := range s.Mitigations {
		titles[m.ID] = m.Title
		o := optionOf(m, s.Metrics, s.Incident)
		if o.Staged = s.Staged != nil && s.Staged.MitigationID == m.ID; o.Staged {
			d.Would = &o
		}
		d.Options = append(d.Options, o)
	}
	if w := s.Staged; w != nil {
		d.Waits = &action{titles[w.MitigationID], w.MitigationID, w.Version, w.Digest, w.IdempotencyKey}
	}
	if x := s.Execution; x != nil {
		d.Last = &action{titles[x.MitigationID], x.MitigationID, x.Version, x.Digest, x.IdempotencyKey}
		d.Effect = effects(x.Before, x.After)
	}
	d.list(s.Receipts.Items)
	return d
}

// list takes up the receipts, newest first. One that was damaged in the ledger is shown as
// such: the page must tell it, beside the verification that failed.
func (d *shown) list(items []evidence.Event) {
	for i := len(items) - 1; i >= 0; i-- {
		e := items[i]
		r := receipt{Sequence: e.Sequence, At: e.Timestamp, Hash: e.Hash}
		if err := json.Unmarshal(e.Data, &r.Receipt); err != nil {
			r.Receipt, r.Damaged = incident.Receipt{Outcome: unreadable}, true
		}
		if len(d.Recent) < apart {
			d.Recent = append(d.Recent, r)
		} else {
			d.Earlier = append(d.Earlier, r)
		}
	}
	if len(items) > 0 {
		d.KeyID = items[len(items)-1].KeyID
	}
}

// Done reports whether what is staged is what was executed last: then it can only be told
// again.
func (d *shown) Done() bool { return d.Waits != nil && d.Last != nil && d.Waits.Key == d.Last.Key }

// Before reports whether the simulation was reset since the last execution: then its effect is
// gone.
func (d *shown) Before() bool {
	x := d.Execution
	return x != nil && (d.Metrics != x.After || (x.Outcome == incident.PartialFailure && d.Status != incident.RecoveryRequired))
}
