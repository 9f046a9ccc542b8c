package audit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"countersign/evidence"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/runbook/incident"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
)

// Where the store keys came from.
const (
	KeysAttested = "store key as attested by the control plane"
	KeysGiven    = "store key given from outside"
)

// Report is what a verification found. As JSON it is one object with the members
// of [evidence.Report] and these.
type Report struct {
	*evidence.Report
	Receipts   Receipts   `json:"receipts"`
	Lawfulness Lawfulness `json:"lawfulness"`
	Boundary   []string   `json:"boundary"` // what a chain of this kind is evidence of, and of what not; empty for most
	Verified   bool       `json:"verified"` // [Report.OK]

	keys keyIDs
}

// Receipts is what became of the store's receipts.
type Receipts struct {
	OK           bool               `json:"ok"`
	Keys         string             `json:"keys"`         // [KeysAttested] or [KeysGiven]
	Checked      int                `json:"checked"`      // receipts in the chain
	LookedUp     int                `json:"lookedUp"`     // of them: found by a probe
	Contradicted int                `json:"contradicted"` // of them: say otherwise than the owner did
	Stated       int                `json:"stated"`       // effects that have an owner's word in place of a receipt
	Failures     int                `json:"failures"`
	Findings     []evidence.Finding `json:"findings"` // at most evidence.MaxFindings
}

// Lawfulness is the answer of the replay.
type Lawfulness struct {
	Known    bool           `json:"known"`  // the chain belongs to a machine of this program
	Proved   bool           `json:"proved"` // known, and nothing is unlawful
	Status   string         `json:"status"` // of the run, policy, turn or what else it is; "" when it has none or is not known
	Reason   string         `json:"reason"`
	Failures int            `json:"failures"`
	Unlawful []run.Unlawful `json:"unlawful"` // at most evidence.MaxFindings
}

// OK reports whether everything holds that was checked, and lawfulness is proved.
func (r *Report) OK() bool { return r.Report.OK() && r.Receipts.OK && r.Lawfulness.Proved }

// keyIDs are the key ids of a verification.
type keyIDs struct {
	given []string // of the trusted keys
	named []string // by the export and its events, the first maxNamed
	known bool     // one of them is trusted
}

// maxNamed bounds the key ids that a report for people spells out.
const maxNamed = 8

func (k *keyIDs) name(id string) {
	k.known = k.known || slices.Contains(k.given, id)
	if len(k.named) < maxNamed && !slices.Contains(k.named, id) {
		k.named = append(k.named, id)
	}
}

// kindNames are what chains of other kinds than runs are called.
var kindNames = map[string]string{
	turn.Kind: "context turn", turn.KindInteraction: "interaction", turn.KindBridge: "bridge receipt",
	project.Kind: "project", project.KindClient: "client", project.KindGap: "gap",
	incident.Kind: "incident session", guardian.Kind: "guardian policy", guardian.KindInventory: "inventory", freeze.Kind: "workspace",
}

// cannotShow are the sentences of package evidence, which speak of runs, and those beside
// them, for a chain of the kind. Only a run acts, and has a store that answers.
func cannotShow(general []string, kind, keys string, stated int) []string {
	var sentences []string
	for _, sentence := range general {
		if name := kindNames[kind]; name != "" {
			sentence = strings.Replace(sentence, "no other run", "no other "+name, 1)
		}
		sentences = append(sentences, sentence)
	}
	if kindNames[kind] != "" {
		return append(sentences, "That what is recorded was right: lawful means that the recorded rules were kept, not that the people and programs behind the record were right.")
	}
	sentences = append(sentences,
		"That a permitted action was a good one: lawful means that the recorded rules were kept, not that they or the people and models behind the decisions were right.",
		"That the store did what it signed: a receipt is the store's word.",
	)
	if stated > 0 {
		sentences = append(sentences, "What became of an effect that has no receipt: a statement is the owner's word.")
	}
	if keys == KeysAttested {
		sentences = append(sentences, "That the receipts are the store's: their key is the one that the control plane recorded. A key obtained from the store itself (--store-key) shows it.")
	}
	return sentences
}

// Print writes the report for people under the given name of the export.
func (r *Report) Print(w io.Writer, name string) error {
	return r.print(w, name, r.CannotShow)
}

// PrintShort writes it without what it cannot show, for one of several reports that
// stand together: the last says it for all.
func (r *Report) PrintShort(w io.Writer, name string) error { return r.print(w, name, nil) }

func (r *Report) print(w io.Writer, name string, cannotShow []string) error {
	p := &printer{w: w}
	s := r.Subject
	p.line("%s", name)
	about := cmp.Or(kindNames[s.Kind], printable(s.Kind)) + " " + printable(s.ID)
	if s.Kind != freeze.Kind { // a workspace is in no other
		about += ", workspace " + printable(s.Workspace)
	}
	p.line("  %s, issued by %s", about, printable(s.Issuer))
	p.line("  head %d:%s", r.Count, r.Head)
	p.line("  exported %s, signed with key %s; texts: %d present, %d erased", r.ExportedAt, r.KeyID, r.Texts.Present, r.Texts.Erased)
	p.wrapped("  signatures by ", "    ", r.SignatureRule)
	p.line("")
	for _, c := range r.Results {
		switch {
		case r.keys.known || c.OK || !keyed[c.Check]:
			p.part(string(c.Check), c.OK, "", c.Failures, c.Findings)
		case c.Check == evidence.CheckKeys:
			p.part(string(c.Check), false, fmt.Sprintf("the events name %s, --key holds %s", printable(strings.Join(r.keys.named, ", ")), strings.Join(r.keys.given, ", ")), 0, nil)
		default:
			p.part(string(c.Check), false, "not checked, for want of a trusted key", 0, nil)
		}
	}
	receipts := fmt.Sprintf("%d, %s", r.Receipts.Checked, r.Receipts.Keys)
	if r.Receipts.Checked == 0 {
		receipts = "none in this chain"
	}
	for _, n := range []struct {
		count int
		what  string
	}{{r.Receipts.LookedUp, "found by a probe"}, {r.Receipts.Contradicted, "against what the owner stated"}, {r.Receipts.Stated, "missing, with the owner's statement in its place"}} {
		if n.count > 0 {
			receipts += fmt.Sprintf("; %d %s", n.count, n.what)
		}
	}
	if kindNames[s.Kind] == "" || r.Receipts.Checked+r.Receipts.Failures > 0 {
		p.part("store receipts", r.Receipts.OK, receipts, r.Receipts.Failures, r.Receipts.Findings)
	}
	var unlawful []evidence.Finding
	for _, u := range r.Lawfulness.Unlawful {
		unlawful = append(unlawful, evidence.Finding{Sequence: u.Sequence, ID: u.EventID, Problem: "breaks the rule " + u.Rule + ": " + u.Detail})
	}
	p.part("lawfulness", r.Lawfulness.Proved, r.Lawfulness.Reason, r.Lawfulness.Failures, unlawful)
	p.line("")
	if len(cannotShow) > 0 {
		p.list("What this is evidence of, and of what not:", r.Boundary)
		p.list("What this cannot show:", cannotShow)
	}
	if r.OK() {
		p.line("  VERIFIED  every check holds")
	} else {
		p.line("  NOT VERIFIED")
	}
	return p.err
}

// keyed are the checks that fail at every event when none of the keys is trusted:
// one line says that better than forty.
var keyed = map[evidence.Check]bool{evidence.CheckKeys: true, evidence.CheckSignatures: true, evidence.CheckManifest: true}

// printer keeps the first error of its writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

func (p *printer) part(name string, ok bool, note string, failures int, findings []evidence.Finding) {
	verdict := "ok"
	if !ok {
		verdict = "FAILED"
	}
	p.line("  %-20s %-7s %s", name, verdict, note)
	for _, f := range findings {
		where := "export"
		if f.Sequence > 0 {
			where = fmt.Sprintf("event %d (%s)", f.Sequence, printable(f.ID))
		}
		p.line("      %s: %s", where, printable(f.Problem))
	}
	if more := failures - len(findings); more > 0 {
		p.line("      and %d more", more)
	}
}

// list writes sentences under a heading, unless there are none.
func (p *printer) list(heading string, sentences []string) {
	if len(sentences) == 0 {
		return
	}
	p.line("  %s", heading)
	for _, sentence := range sentences {
		p.wrapped("  - ", "    ", sentence)
	}
	p.line("")
}

// lineWidth is where sentences are broken.
const lineWidth = 100

func (p *printer) wrapped(first, rest, sentence string) {
	line := first
	for i, word := range strings.Fields(sentence) {
		if i > 0 && len(line)+1+len(word) > lineWidth {
			p.line("%s", line)
			line = rest + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	p.line("%s", line)
}

// printable keeps text of an export from steering the terminal.
func printable(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
