package control_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

const visitKind = "incidentvisit"

// open are the visits that count as open.
func (h *house) visits() []ledger.Subject {
	h.t.Helper()
	list, err := h.ledger.Find(h.t.Context(), ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: visitKind, Where: []ledger.Attribute{{Name: "open", Value: "1"}}, Limit: 100})
	must(h.t, err)
	return list
}

// A session and its cookie are good until the millisecond before a day is over, and no
// longer, whatever a request waits for; then another begins, and the old one's evidence
// stays. R-061, L-14, G-24.
func TestSessionEnds(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		const day = 24 * time.Hour
		b := &browser{h: h}
		a, _ := b.read()
		if s := a.Snapshot.Session; s.ExpiresAt.Sub(s.OpenedAt) != day || s.OpenedAt != evidence.TimeOf(dawn) || a.Cookie == "" {
			t.Errorf("a session is open from %s to %s", s.OpenedAt, s.ExpiresAt)
		}
		if a, _ := b.read(); a.Cookie != "" {
			t.Error("a session that goes on sets a cookie")
		}
		visits := h.visits()
		if len(visits) != 1 || !visits[0].Due.Equal(dawn.Add(day)) {
			t.Fatalf("visits %+v", visits)
		}
		settle := h.Settlers()[visitKind]
		h.at(day - time.Millisecond)
		must(t, settle(t.Context(), visits[0].Key))
		if a, reason := b.read(); reason != "" || a.Cookie != "" || a.Snapshot.Receipts.Total != 3 || len(h.visits()) != 1 {
			t.Errorf("a millisecond before: %q, another cookie %v", reason, a.Cookie != "")
		}
		h.at(day)
		if s := b.now(); s.Session != nil || s.Version != 1 || s.Receipts.Total != 0 {
			t.Errorf("after a day: %+v", s.Session)
		}
		old := *b
		if a, reason := b.read(); reason != "" || a.Cookie == "" || b.cookie == old.cookie || a.Snapshot.Receipts.Total != 1 {
			t.Errorf("after a day: %q", reason)
		}
		if old.chain() != nil {
			t.Error("the evidence is shown to a cookie that has ended")
		}
		must(t, settle(t.Context(), visits[0].Key))
		if open := h.visits(); len(open) != 1 || open[0].ID == visits[0].ID {
			t.Errorf("settled: %d are open", len(open))
		}
		noted, _, err := h.ledger.Load(t.Context(), visits[0].Key)
		must(t, err)
		must(t, settle(t.Context(), visits[0].Key))
		if again, _, err := h.ledger.Load(t.Context(), visits[0].Key); err != nil || again.Revision != noted.Revision || !again.Due.IsZero() {
			t.Errorf("settled again: %+v, %v", again, err)
		}
		if events, err := h.ledger.engine.Events(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: incident.Kind, ID: visits[0].ID}, 0, 10); err != nil || len(events) != 3 {
			t.Errorf("the old session has %d receipts, %v", len(events), err)
		}
		// A request is decided in time, and waits until the end.
		for _, without := range []string{"", "expiry"} {
			b, reader := &browser{h: h}, &browser{h: h}
			s := b.stage("restore-pool")
			reader.read()
			h.clock.Move(day - time.Minute)
			b.approve()
			waited := false
			h.config.Without, h.config.Fault = without, func(point string) error {
				if point == control.FaultDecided && !waited {
					waited = true
					h.clock.Move(time.Minute)
				}
				return nil
			}
			h.open()
			cookie := b.cookie
			a, reason := b.execute(s)
			if without == "" {
				is(t, "committed after the session", a, reason, incident.NothingStaged, blocked)
				if b.cookie == cookie {
					t.Error("no other session began")
				}
			} else {
				is(t, "control", a, reason, "", ok)
			}
			h.clock.Move(-time.Minute) // on a clock set back the other has a minute again
			waited, cookie = false, reader.cookie
			a, reason = reader.read()
			is(t, "read", a, reason, "", ok)
			if (reader.cookie == cookie) != (without == "expiry") {
				t.Errorf("without %q: a read that came too late is in the session %v", without, reader.cookie == cookie)
			}
			h.config.Without, h.config.Fault = "", nil
			h.open()
		}
	})
}

// Two first requests at once begin two sessions; one is not the other's. A GET begins none,
// nor does a request that leaves no receipt, nor a cookie that was made up.,
// L-14.
func TestSessionBegins(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		var asks []func() (*control.Answer, string, error)
		for range 2 {
			asks = append(asks, func() (*control.Answer, string, error) {
				return (&browser{h: h}).ask(incident.Request{Operation: incident.Stage, Channel: incident.API, Input: staging("restore-pool", 1)}, "")
			})
		}
		all := atOnce(t, asks)
		one, two := all[0].answer, all[1].answer
		if one.Cookie == two.Cookie || one.Snapshot.Session.ID == two.Snapshot.Session.ID || one.Snapshot.Staged.IdempotencyKey == two.Snapshot.Staged.IdempotencyKey || one.Snapshot.Staged.Digest != two.Snapshot.Staged.Digest {
			t.Errorf("%+v and %+v", one.Snapshot.Staged, two.Snapshot.Staged)
		}
		for _, a := range []*control.Answer{one, two} {
			raw, err := hex.DecodeString(identity.Hash(a.Cookie))
			if err != nil || len(a.Cookie) != 43 || len(raw) != 32 || !incident.IsSessionID(a.Snapshot.Session.ID, evidence.TimeOf(dawn)) {
				t.Errorf("a cookie of %d characters, session %s", len(a.Cookie), a.Snapshot.Session.ID)
			}
			if r := told(t, a.Receipt); r.Subject == nil || r.Identity != a.Snapshot.Session.Identity || !strings.HasSuffix(a.Snapshot.Session.ID, r.Identity[len(r.Identity)-12:]) {
				t.Errorf("the first receipt is %+v", r)
			}
		}
		for what, cookie := range map[string]string{"none": "", "made up": strings.Repeat("A", 43), "another's, changed": one.Cookie[:42] + "_", "no cookie at all": "x", "NUL": "\x00"} {
			b := &browser{h: h, cookie: cookie}
			before := len(h.visits())
			if s := b.now(); s.Session != nil || b.form() != "" || b.chain() != nil {
				t.Errorf("%s: a session %+v", what, s.Session)
			}
			a, reason := b.do(incident.Stage, incident.API, staging("restore-pool", 7), "")
			is(t, what, a, reason, incident.StaleState, "")
			if a.Cookie != "" || len(h.visits()) != before {
				t.Errorf("%s: a session began without a receipt", what)
			}
		}
	})
}

// An address begins 100 sessions within an hour; the next one waits until the first is an
// hour old, and no other address does.
func TestNewSessions(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		begin := func(remote string) error {
			_, _, err := (&browser{h: h, remote: remote}).ask(incident.Request{Operation: incident.Snapshot, Channel: incident.API}, "")
			return err
		}
		kept := &browser{h: h}
		kept.read()
		h.clock.Move(10 * time.Minute)
		for range 99 {
			must(t, begin("192.0.2.1"))
		}
		limited := func(want time.Duration) {
			t.Helper()
			if e, found := errors.AsType[*control.LimitError](begin("192.0.2.1")); !found || e.RetryAfter != want {
				t.Errorf("%+v, want again after %s", e, want)
			}
		}
		limited(50 * time.Minute)
		must(t, begin("192.0.2.2"))
		kept.read() // who has a session goes on
		h.config.Without = "limit"
		h.open()
		must(t, begin("192.0.2.3"))
		h.config.Without = ""
		h.open()
		h.at(time.Hour - time.Millisecond)
		limited(time.Millisecond)
		h.at(time.Hour)
		must(t, begin("192.0.2.1"))
		limited(10 * time.Minute) // the next of them is that much younger
		h.config.Without = "limit"
		h.open()
		if err := begin("192.0.2.1"); err != nil {
			t.Errorf("control: without the bound %v", err)
		}
	})
}

// At most 1,000 sessions are open (L-14). They are until a day is over, whether or not
// anybody has noted that.
func TestOpenSessions(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for n := 0; n < 999; {
			var c ledger.Change
			for ; len(c.Writes) < 111; n++ {
				w := ledger.Write{Key: ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: visitKind}, Head: evidence.Genesis}
				at := evidence.TimeOf(dawn.Add(time.Duration(n) * time.Millisecond))
				w.ID = incident.SessionID(at, identity.Hash(fmt.Sprint(n)))
				w.State = fmt.Appendf(nil, `{"openedAt":%q}`, at)
				w.Attributes = []ledger.Attribute{{Name: "open", Value: "1"}, {Name: "address", Value: identity.Hash(fmt.Sprint(n))[:32]}}
				c.Writes = append(c.Writes, w)
			}
			must(t, h.ledger.Commit(t.Context(), c).Err())
		}
		h.clock.Move(time.Second)
		last := &browser{h: h}
		if _, reason := last.read(); reason != "" {
			t.Fatalf("the thousandth: %s", reason)
		}
		begin := func() error {
			_, _, err := (&browser{h: h}).ask(incident.Request{Operation: incident.Snapshot, Channel: incident.API}, "")
			return err
		}
		if err := begin(); !errors.Is(err, control.ErrFull) {
			t.Errorf("one more: %v", err)
		}
		last.read()
		h.at(24*time.Hour - time.Millisecond)
		if err := begin(); !errors.Is(err, control.ErrFull) {
			t.Errorf("before the first has ended: %v", err)
		}
		h.config.Without = "limit"
		h.open()
		if err := begin(); err != nil {
			t.Errorf("control: without the bound %v", err)
		}
		h.config.Without = ""
		h.open()
		h.at(24*time.Hour + time.Millisecond) // two have, and one began without the bound
		if err := begin(); err != nil {
			t.Errorf("when the first have ended: %v", err)
		}
		if err := begin(); !errors.Is(err, control.ErrFull) {
			t.Errorf("one more than have ended: %v", err)
		}
	})
}

// What is secret or tells of a person's machine is not in the database, nor in evidence: of
// the cookie, the nonce and the address there are hashes. R-061, G-26.
func TestNothingSecretIsStored(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		const address = "2001:db8::5ec:4e7"
		b := &browser{h: h, remote: address}
		b.stage("restore-pool")
		nonce := b.form()
		b.approve()
		b.executed(b.now().Staged)
		var content string
		if h.path == "" {
			content = h.rows(`SELECT string_agg(query_to_xml(format('SELECT * FROM %I.%I', schemaname, tablename), true, true, '')::text, ' ') FROM pg_tables WHERE schemaname = 'public'`)
		} else {
			files, err := filepath.Glob(h.path + "*")
			must(t, err)
			for _, file := range files {
				raw, err := os.ReadFile(file)
				must(t, err)
				content += string(raw)
			}
		}
		events, err := json.Marshal(b.chain())
		must(t, err)
		shown, err := json.Marshal(b.now())
		must(t, err)
		for where, text := range map[string]string{"the database": content, "the evidence": string(events), "the snapshot": string(shown)} {
			for what, secret := range map[string]string{"cookie": b.cookie, "nonce": nonce, "address": address} {
				for _, form := range []string{secret, hex.EncodeToString([]byte(secret))} {
					if strings.Contains(text, form) {
						t.Errorf("%s has the %s", where, what)
					}
				}
			}
			if !strings.Contains(text, b.now().Session.ID) {
				t.Errorf("control: %s has not even the session's id", where)
			}
		}
		if !strings.Contains(content, identity.Hash(b.cookie)) || cmp.Or(nonce, "") == "" {
			t.Error("control: the database has not the cookie's hash, or there was no nonce")
		}
	})
}
