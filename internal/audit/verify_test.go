package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/canon"
	"countersign/internal/keys"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/merchant"
	"countersign/store"
)

// chain is the evidence of a hosted purchase that really took place, with the
// key that signed it: a tampered copy is sealed anew, so that only what it says
// can give it away.
type chain struct {
	export  *evidence.Export
	signing evidence.SigningKey
	trusted evidence.Keys
	store   dispatch.TrustedKey
}

func purchase(t *testing.T) chain {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	folder := filepath.Join(dir, "control")
	must(t, keys.Init(folder))
	k := got(keys.Load(folder))(t)
	path := filepath.Join(folder, "countersign.db")
	must(t, sqlite.Create(ctx, path))
	ledger := got(sqlite.Open(ctx, path, sqlite.Options{}))(t)
	t.Cleanup(func() { ledger.Close() })

	shop := filepath.Join(dir, "store")
	must(t, store.Create(shop))
	server := httptest.NewUnstartedServer(nil)
	origin := "http://" + server.Listener.Addr().String()
	open := got(store.Open(shop, store.Options{Origin: origin, Trust: []dispatch.TrustedKey{{Public: k.Dispatch().Public()}}}))(t)
	t.Cleanup(func() { open.Close() })
	server.Config.Handler = open.Handler()
	server.Start()
	t.Cleanup(server.Close)

	g := gateway.New(gateway.Config{
		Ledger: ledger, Keys: k, Issuer: "http://localhost:8420", Workspace: "default",
		Services: []gateway.Service{merchant.Adapter{}}, Guardian: got(replay.NewGuardian())(t),
		Store:  &gateway.Store{Origin: origin, Keys: []dispatch.TrustedKey{open.ReceiptKey()}},
		Sender: dispatch.NewClient(nil), Log: slog.New(slog.DiscardHandler),
		Doors: decide.Doors{Window: true}, // a busy machine would miss the second in which bytes have to leave
	})
	id := got(g.Create(ctx, gateway.CreateRequest{
		Config: run.Config{Service: "merchant", Target: "hosted", Channel: "http", TrafficActor: "agent", Mode: "bounded", ExecutionMode: "replay", Executor: "replay", Interrogator: "replay"},
		Budget: 13700, Instruction: "Buy one Fieldwork keyboard for $137 total using the approved terms.",
	}))(t)
	for _, entry := range []string{"catalog", "add:fieldwork-keyboard:1", "checkout:addr_home", "submit:"} {
		operate(t, g, id, entry)
	}
	var b bytes.Buffer
	must(t, g.Export(ctx, id, &b))
	public := k.Evidence().Public()
	return chain{got(evidence.ReadExport(&b))(t), k.Evidence(), evidence.Keys{{Public: public}}, open.ReceiptKey()}
}

// operate reports on the entry of the current catalog whose id begins so, and
// executes it.
func operate(t *testing.T, g *gateway.Gateway, id, prefix string) {
	t.Helper()
	ctx := context.Background()
	seen := got(g.Observe(ctx, id))(t)
	i := slices.IndexFunc(seen.Catalog, func(e propose.Entry) bool { return strings.HasPrefix(e.EntryID, prefix) })
	if i < 0 {
		t.Fatalf("the catalog has no entry %s", prefix)
	}
	e := seen.Catalog[i]
	turn := got(g.Propose(ctx, id, "", canon.MustMarshal(propose.Report{
		GoalRestatement: "Buy one keyboard.", SelectedCandidateID: "c1", Uncertainties: []string{},
		Candidates:     []propose.Candidate{{ID: "c1", Action: e.Action(), Purpose: e.Label, Disposition: "proposed"}},
		Justification:  propose.Justification{Summary: "It is next.", EvidenceRefs: []string{seen.ObservationID}},
		ExpectedEffect: propose.ExpectedEffect{OperationID: e.OperationID, TransactionProposalID: e.Effect.TransactionProposalID, DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions},
	})))(t)
	if turn.Permit == nil {
		t.Fatalf("%s: %s %s", prefix, turn.Decision.Decision, turn.Decision.ReasonCode)
	}
	body := canon.MustMarshal(map[string]any{"action": turn.Permit.Action})
	got(g.Operate(ctx, gateway.OperateRequest{RunID: id, Token: turn.Permit.Token, Key: rand.Text(), Body: body}))(t)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// edited seals the chain again after changing the data of the events of one
// type; f returns whether it changed the event.
func (c chain) edited(t *testing.T, kind string, f func(data map[string]any) bool) []byte {
	t.Helper()
	at, changed := evidence.Link{Hash: evidence.Genesis}, false
	var events []evidence.Event
	for _, e := range c.export.Events {
		data := e.Data
		if e.Type == kind {
			var m map[string]any
			must(t, json.Unmarshal(data, &m))
			if f(m) {
				changed = true
				data = got(json.Marshal(m))(t)
				data = got(canon.Canonical(data))(t)
			}
		}
		now := got(evidence.ParseTime(e.Timestamp))(t)
		sealed := got(evidence.Seal(c.signing, e.RunID, at, now, []evidence.Draft{{ID: e.ID, Type: e.Type, Data: json.RawMessage(data)}}))(t)
		events = append(events, sealed[0])
		at = evidence.Link{Sequence: e.Sequence, Hash: sealed[0].Hash}
	}
	if !changed {
		t.Fatalf("no event %s was changed", kind)
	}
	return c.sealed(t, events, at)
}

func (c chain) sealed(t *testing.T, events []evidence.Event, head evidence.Link) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, evidence.WriteExport(&b, c.signing, time.Now(), evidence.Source{
		Subject: c.export.Subject, Head: head,
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		},
	}))
	return b.Bytes()
}

func (c chain) bytes(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, c.export.Write(&b))
	return b.Bytes()
}

func verify(t *testing.T, raw []byte, o audit.Options) *audit.Report {
	t.Helper()
	return got(audit.Verify(bytes.NewReader(raw), o))(t)
}

func TestVerify(t *testing.T) {
	c := purchase(t)
	options := audit.Options{Keys: c.trusted}
	stranger := dispatch.TrustedKey{Public: ed25519.NewKeyFromSeed(seed(t)).Public().(ed25519.PublicKey)}

	t.Run("a purchase", func(t *testing.T) {
		r := verify(t, c.bytes(t), options)
		if !r.OK() || !r.Verified {
			t.Fatalf("not verified: %s", printed(t, r))
		}
		// One session, one cart change, one checkout and one order were dispatched.
		if r.Receipts.Checked != 4 || r.Receipts.Keys != audit.KeysAttested {
			t.Errorf("%d receipts with %q, want 4 with the attested key", r.Receipts.Checked, r.Receipts.Keys)
		}
		if !r.Lawfulness.Known || r.Lawfulness.Failures != 0 {
			t.Errorf("lawfulness: %+v", r.Lawfulness)
		}
	})
	t.Run("the store's key from outside", func(t *testing.T) {
		o := options
		o.StoreKeys = []dispatch.TrustedKey{c.store}
		if r := verify(t, c.bytes(t), o); !r.OK() || r.Receipts.Keys != audit.KeysGiven {
			t.Fatalf("not verified: %s", printed(t, r))
		}
		o.StoreKeys = []dispatch.TrustedKey{stranger}
		r := verify(t, c.bytes(t), o)
		// Each of the four receipts fails, and with it what rests on the three of executions.
		if r.OK() || r.Receipts.OK || r.Receipts.Failures != 7 || !r.Report.OK() || !r.Lawfulness.Proved {
			t.Fatalf("another store's key: %s", printed(t, r))
		}
	})
	t.Run("an untrusted evidence key", func(t *testing.T) {
		r := verify(t, c.bytes(t), audit.Options{Keys: evidence.Keys{{Public: stranger.Public}}})
		if r.OK() || r.Result(evidence.CheckKeys).OK || !r.Receipts.OK || !r.Lawfulness.Proved {
			t.Fatalf("untrusted key: %s", printed(t, r))
		}
	})
	t.Run("another machine", func(t *testing.T) {
		raw := c.machine(t, 99)
		r := verify(t, raw, options)
		if r.OK() || r.Lawfulness.Known || r.Lawfulness.Proved || !r.Report.OK() {
			t.Fatalf("machine 99: %s", printed(t, r))
		}
		if !strings.Contains(r.Lawfulness.Reason, "not proved") || !strings.Contains(r.Lawfulness.Reason, "99") {
			t.Errorf("reason: %s", r.Lawfulness.Reason)
		}
	})
	t.Run("not an export", func(t *testing.T) {
		if r, err := audit.Verify(strings.NewReader("{}\n"), options); err == nil || r != nil {
			t.Fatalf("%v, %v", r, err)
		}
	})

	// Each case is perfectly hashed and signed; only the receipts give it away.
	receipt := func(name, kind, finding string, change func(data map[string]any) bool) {
		t.Run(name, func(t *testing.T) {
			r := verify(t, c.edited(t, kind, change), options)
			if !r.Report.OK() {
				t.Fatalf("the integrity of the edited chain: %s", printed(t, r))
			}
			if r.OK() || r.Receipts.OK || !slices.ContainsFunc(r.Receipts.Findings, func(f evidence.Finding) bool {
				return strings.Contains(f.Problem, finding) && f.Sequence > 0 && f.ID != ""
			}) {
				t.Fatalf("want a finding %q: %s", finding, printed(t, r))
			}
		})
	}
	tokens := c.tokens(t)
	receipt("a receipt of another dispatch", "hosted.receipt", "another permit: jti", func(d map[string]any) bool {
		if d["receipt"] != tokens[1] {
			return false
		}
		d["receipt"] = tokens[0]
		return true
	})
	receipt("a receipt that was changed", "hosted.receipt", "does not verify", func(d map[string]any) bool {
		d["receipt"] = flipped(d["receipt"].(string))
		return true
	})
	receipt("another session's receipt", "hosted.session", "another permit: jti", func(d map[string]any) bool {
		if d["phase"] != "opened" {
			return false
		}
		d["receipt"] = tokens[0]
		return true
	})
	receipt("another pinned key", "run.created", "does not verify", func(d map[string]any) bool {
		d["storeKeys"] = []string{canon.EncodeBase64(stranger.Public)}
		return true
	})
	for member, claim := range map[string]string{"aud": "iss", "sid": "sid", "htm": "operation", "htu": "operation", "bh": "bh"} {
		receipt("a dispatch with another "+member, "execution.dispatched", "another permit: "+claim, func(d map[string]any) bool {
			sent, hosted := d["dispatch"].(map[string]any)
			if hosted {
				sent[member] = map[string]string{
					"aud": "http://127.0.0.1:1", "sid": "another", "htm": "PUT", "htu": sent["aud"].(string) + "/api/other", "bh": dispatch.HashBody([]byte("other")),
				}[member]
			}
			return hosted
		})
	}
	receipt("a dispatch with another effect", "execution.dispatched", "another permit: ed", func(d map[string]any) bool {
		d["effectDigest"] = canon.Hash([]byte("other"))
		return true
	})
	receipt("a dispatch with another permit", "execution.dispatched", "another permit: pid", func(d map[string]any) bool {
		d["permitId"] = "another"
		return true
	})
	order := func(member string, value any) func(map[string]any) bool {
		return func(d map[string]any) bool {
			if d["orderId"] == nil {
				return false
			}
			d[member] = value
			return true
		}
	}
	receipt("another amount", "execution.receipt", "amountCents is not what", order("amountCents", "13699"))
	receipt("another order", "execution.receipt", "orderId is not what", order("orderId", "ord_0000"))
	receipt("no order", "execution.receipt", "orderId is not what", order("orderId", nil))
	receipt("a refusal told as an effect", "execution.receipt", "result is not what", order("result", "refused"))
	receipt("another answer", "hosted.receipt", "hash of the answer is not what", func(d map[string]any) bool {
		d["responseSha256"] = canon.Hash([]byte("other"))
		return true
	})
	receipt("a look-up has no answer of its own, a stranger's receipt stays one", "hosted.receipt", "does not verify", func(d map[string]any) bool {
		d["observedBy"], d["receipt"] = "look_up", flipped(d["receipt"].(string))
		return true
	})

	t.Run("an unlawful transition is named", func(t *testing.T) {
		var named evidence.Event
		raw := c.edited(t, "permit.claimed", func(d map[string]any) bool {
			d["reservedCents"] = "13701"
			return true
		})
		r := verify(t, raw, options)
		for _, e := range got(evidence.ReadExport(bytes.NewReader(raw)))(t).Events {
			if e.Type == "permit.claimed" {
				named = e
				break
			}
		}
		if r.Lawfulness.Proved || r.Lawfulness.Failures == 0 {
			t.Fatalf("lawful: %s", printed(t, r))
		}
		if u := r.Lawfulness.Unlawful[0]; u.Rule != "reservation" || u.Sequence != named.Sequence || u.EventID != named.ID {
			t.Errorf("unlawful: %+v, want rule reservation at event %d %s", u, named.Sequence, named.ID)
		}
	})
}

func TestReport(t *testing.T) {
	c := purchase(t)
	good := verify(t, c.bytes(t), audit.Options{Keys: c.trusted})
	t.Run("text", func(t *testing.T) {
		text := printed(t, good)
		for _, want := range []string{
			"evidence.json\n", fmt.Sprintf("head %d:%s", good.Count, good.Head), "key match            ok", "store receipts       ok      4, store key as attested by the control plane",
			"lawfulness           ok      every transition is lawful; the run is completed", "What this cannot show:", "That no other run was left out", "VERIFIED  every check holds",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("want %q in\n%s", want, text)
			}
		}
	})
	t.Run("failure", func(t *testing.T) {
		bad := verify(t, c.machine(t, 99), audit.Options{Keys: c.trusted})
		text := printed(t, bad)
		if !strings.Contains(text, "lawfulness           FAILED  not proved") || !strings.Contains(text, "NOT VERIFIED") {
			t.Error(text)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		var m map[string]any
		must(t, json.Unmarshal(got(json.Marshal(good))(t), &m))
		for _, member := range []string{"subject", "count", "head", "keyId", "exportedAt", "texts", "results", "cannotShow", "receipts", "lawfulness"} {
			if m[member] == nil {
				t.Errorf("no member %s", member)
			}
		}
		if m["verified"] != true {
			t.Errorf("verified: %v", m["verified"])
		}
	})
}

func printed(t *testing.T, r *audit.Report) string {
	t.Helper()
	var b strings.Builder
	must(t, r.Print(&b, "evidence.json"))
	return b.String()
}

// machine states another machine everywhere a chain states one.
func (c chain) machine(t *testing.T, machine int64) []byte {
	t.Helper()
	c.export = got(evidence.ReadExport(bytes.NewReader(c.bytes(t))))(t)
	c.export.Subject.Machine = machine
	return c.edited(t, "run.created", func(d map[string]any) bool {
		d["subject"].(map[string]any)["machine"] = machine
		return true
	})
}

// tokens are the receipts of the executions, in the order of the chain.
func (c chain) tokens(t *testing.T) (list []string) {
	t.Helper()
	for _, e := range c.export.Events {
		if e.Type == "hosted.receipt" {
			var d run.HostedReceipt
			must(t, json.Unmarshal(e.Data, &d))
			list = append(list, d.Receipt)
		}
	}
	if len(list) != 3 {
		t.Fatalf("%d receipts, want 3", len(list))
	}
	return list
}

// flipped changes one character of the payload.
func flipped(token string) string {
	i := strings.IndexByte(token, '.') + 10
	c := byte('A')
	if token[i] == c {
		c = 'B'
	}
	return token[:i] + string(c) + token[i+1:]
}

func seed(t *testing.T) []byte {
	t.Helper()
	b := make([]byte, ed25519.SeedSize)
	rand.Read(b)
	return b
}
