package authority_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/money"

	"pgregory.net/rapid"
)

// now is the time of all decisions here.
var now = evidence.TimeOf(time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC))

// TestMain keeps rapid from leaving files of failed draws in the tree, where later
// runs would pick them up. A failure prints its draws and its seed.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	m.Run()
}

// TestBudget: equal fits, one cent above does not (G-08).
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		limit, spent, reserved, amount money.Cents
		fits                           bool
	}{
		{13700, 0, 0, 13699, true}, {13700, 0, 0, 13700, true}, {13700, 0, 0, 13701, false},
		{13700, 700, 3000, 9999, true}, {13700, 700, 3000, 10000, true}, {13700, 700, 3000, 10001, false},
		{0, 0, 0, 0, true}, {0, 0, 0, 1, false}, {100, 60, 40, 0, true}, {100, 60, 41, 0, false},
		{money.Max, money.Max, 0, 0, true}, {money.Max, money.Max, 0, 1, false}, {money.Max, money.Max, 1, 0, false}, {math.MaxInt64, money.Max, 0, 1, false},
	} {
		b := authority.Budget{Limit: c.limit, Spent: c.spent, Reserved: c.reserved}
		before := b
		if b.Fits(c.amount) != c.fits {
			t.Errorf("%+v fits %d: %v", b, c.amount, !c.fits)
		}
		if b.Reserve(c.amount) != c.fits {
			t.Errorf("%+v reserves %d: %v", b, c.amount, !c.fits)
		}
		if want := before.Reserved + c.amount; c.fits && b.Reserved != want || !c.fits && b != before {
			t.Errorf("after reserving %d: %+v", c.amount, b)
		}
	}
}

// TestSpendAndRelease: only what is reserved can be spent or given back.
func TestSpendAndRelease(t *testing.T) {
	for amount, ok := range map[money.Cents]bool{99: true, 100: true, 101: false} {
		b := authority.Budget{Limit: 200, Spent: 10, Reserved: 100}
		want := b
		if ok {
			want = authority.Budget{Limit: 200, Spent: 10 + amount, Reserved: 100 - amount}
		}
		if b.Spend(amount) != ok || b != want {
			t.Errorf("spend %d: %+v", amount, b)
		}
		b = authority.Budget{Limit: 200, Spent: 10, Reserved: 100}
		want = b
		if ok {
			want.Reserved -= amount
		}
		if b.Release(amount) != ok || b != want {
			t.Errorf("release %d: %+v", amount, b)
		}
	}
}

// TestBudgetInvariant: in any order of reservations, payments and releases,
// spent + reserved stays within the limit and nothing is lost.
func TestBudgetInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, int64(money.Max))
		b := authority.Budget{Limit: money.Cents(amount.Draw(t, "limit"))}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			before, n := b, money.Cents(amount.Draw(t, "amount"))
			if rapid.Bool().Draw(t, "small") {
				n %= b.Limit/4 + 1
			}
			ok, spent, held := false, money.Cents(0), money.Cents(0)
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				ok, held = b.Reserve(n), n
			case 1:
				ok, spent, held = b.Spend(n), n, -n
			case 2:
				ok, held = b.Release(n), -n
			}
			if !ok {
				spent, held = 0, 0
			}
			if b.Spent != before.Spent+spent || b.Reserved != before.Reserved+held || b.Spent < 0 || b.Reserved < 0 || b.Spent+b.Reserved > b.Limit {
				t.Fatalf("%+v became %+v by %d, %v", before, b, n, ok)
			}
		}
	})
}

func grant() authority.Grant {
	return authority.Grant{
		ID: "g", Kind: "bounded", Operations: []string{"read", "submit"}, Currency: "USD", MaxTotalCents: 13700,
		Constraints: []authority.Constraint{{Name: "product", Rule: authority.RuleEquals, Value: "keyboard"}, {Name: "totalCents", Rule: authority.RuleAtMost, Value: "13700"}},
		MaxUses:     map[string]int64{"submit": 1}, ExpiresAt: now,
	}
}

// TestGrant: what it covers, when it ends, how often it may be used (G-07).
func TestGrant(t *testing.T) {
	g := grant()
	for operation, want := range map[string]bool{"read": true, "submit": true, "Read": false, "rea": false, "": false} {
		if g.Covers(operation) != want {
			t.Errorf("covers %q: %v", operation, !want)
		}
	}
	for at, want := range map[evidence.Time]bool{now - 1: true, now: false, now + 1: false} {
		if g.Live(at) != want {
			t.Errorf("live %d ms from its end: %v", at-now, !want)
		}
	}
	g.MaxUses["submit"] = 2
	for used, want := range map[int64]bool{0: true, 1: true, 2: false, 3: false} {
		if g.UsesLeft("submit", authority.Usage{"submit": used, "read": 1000}) != want {
			t.Errorf("used %d of 2, one more: %v", used, !want)
		}
	}
	if !g.UsesLeft("read", authority.Usage{"read": 1000}) || !g.UsesLeft("submit", nil) {
		t.Error("an operation without a limit is not counted, and without uses nothing is used up")
	}
	g.MaxUses["none"] = 0
	if g.UsesLeft("none", nil) {
		t.Error("a limit of zero allows a use")
	}
}

// TestAdmits: every fact needs a term that it satisfies; what the owner did not
// speak of is not allowed.
func TestAdmits(t *testing.T) {
	fact := func(name, value string) authority.Fact { return authority.Fact{Name: name, Value: value} }
	for _, c := range []struct {
		facts []authority.Fact
		want  bool
	}{
		{nil, true},
		{[]authority.Fact{fact("product", "keyboard")}, true},
		{[]authority.Fact{fact("product", "keyboards")}, false},
		{[]authority.Fact{fact("product", "")}, false},
		{[]authority.Fact{fact("totalCents", "13699")}, true},
		{[]authority.Fact{fact("totalCents", "13700")}, true},
		{[]authority.Fact{fact("totalCents", "13701")}, false},
		{[]authority.Fact{fact("totalCents", "0")}, true},
		{[]authority.Fact{fact("totalCents", "-1")}, false},
		{[]authority.Fact{fact("totalCents", "013")}, false},
		{[]authority.Fact{fact("totalCents", "")}, false},
		{[]authority.Fact{fact("product", "keyboard"), fact("totalCents", "13700")}, true},
		{[]authority.Fact{fact("product", "keyboard"), fact("totalCents", "13701")}, false},
		{[]authority.Fact{fact("product", "mouse"), fact("totalCents", "1")}, false},
		{[]authority.Fact{fact("gift", "yes")}, false},
	} {
		g := grant()
		if g.Admits(c.facts) != c.want {
			t.Errorf("%v: %v", c.facts, !c.want)
		}
	}
	for _, bad := range []authority.Constraint{
		{Name: "x", Rule: "", Value: "1"}, {Name: "x", Rule: "EQUALS", Value: "1"}, {Name: "x", Rule: authority.RuleAtMost, Value: "many"}, {Name: "x", Rule: authority.RuleAtMost, Value: "1.0"},
	} {
		g := authority.Grant{Constraints: []authority.Constraint{bad}}
		if g.Admits([]authority.Fact{fact("x", "1")}) || g.Admits([]authority.Fact{fact("x", "0")}) {
			t.Errorf("the constraint %+v admits something", bad)
		}
	}
}

// TestPermit: at most 30 s, never longer than the grant, over at its end (H-080).
func TestPermit(t *testing.T) {
	p := authority.Permit{ExpiresAt: now}
	for at, want := range map[evidence.Time]bool{now - 1: true, now: false, now + 1: false} {
		if p.Live(at) != want {
			t.Errorf("live %d ms from its end: %v", at-now, !want)
		}
	}
	for left, want := range map[time.Duration]time.Duration{
		30*time.Second - time.Millisecond: 30*time.Second - time.Millisecond, 30 * time.Second: 30 * time.Second, 30*time.Second + time.Millisecond: 30 * time.Second,
		time.Hour: 30 * time.Second, 0: 0,
	} {
		if got := authority.PermitExpiry(now, now.Add(left)).Sub(now); got != want {
			t.Errorf("with %v of the grant left: %v, want %v", left, got, want)
		}
	}
}

// TestBindings: each of the ten makes a difference (H-079).
func TestBindings(t *testing.T) {
	text := func(s string) *string { return &s }
	all := func() authority.Bindings {
		return authority.Bindings{
			RunID: "r", Goal: "g", TurnID: "t", GrantID: "gr", ObservationID: "o", DocumentEpoch: 1, StateRevision: 2, ActionDigest: "a", OperationID: "op",
			TransactionProposalID: text("p"),
		}
	}
	if !all().Equal(all()) {
		t.Error("equal bindings differ")
	}
	for name, change := range map[string]func(*authority.Bindings){
		"run": func(b *authority.Bindings) { b.RunID = "x" }, "goal": func(b *authority.Bindings) { b.Goal = "x" },
		"turn": func(b *authority.Bindings) { b.TurnID = "x" }, "grant": func(b *authority.Bindings) { b.GrantID = "x" },
		"observation": func(b *authority.Bindings) { b.ObservationID = "x" }, "epoch": func(b *authority.Bindings) { b.DocumentEpoch++ },
		"revision": func(b *authority.Bindings) { b.StateRevision++ }, "action": func(b *authority.Bindings) { b.ActionDigest = "x" },
		"operation": func(b *authority.Bindings) { b.OperationID = "x" }, "proposal": func(b *authority.Bindings) { b.TransactionProposalID = text("x") },
		"no proposal": func(b *authority.Bindings) { b.TransactionProposalID = nil },
	} {
		other := all()
		change(&other)
		if all().Equal(other) || other.Equal(all()) {
			t.Errorf("another %s makes no difference", name)
		}
	}
	a, b := all(), all()
	a.TransactionProposalID, b.TransactionProposalID = nil, nil
	if !a.Equal(b) {
		t.Error("bindings without a proposal differ")
	}
}

// TestDigest is computed here from its definition (design, section 3).
func TestDigest(t *testing.T) {
	sum := sha256.Sum256([]byte("countersign/effect/1\x00" + `{"a":1,"b":"x"}`))
	type fields struct {
		B string `json:"b"`
		A int    `json:"a"`
	}
	if got := authority.Digest(authority.DomainEffect, fields{"x", 1}); got != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", got)
	}
	domains := []authority.Domain{
		authority.DomainEffect, authority.DomainAction, authority.DomainGoal, authority.DomainTerms, authority.DomainEntry,
		authority.DomainCatalog, authority.DomainState, authority.DomainReport, authority.DomainRequest,
	}
	seen := map[string]bool{}
	for _, domain := range domains {
		seen[authority.Digest(domain, fields{"x", 1})] = true
	}
	if len(seen) != len(domains) {
		t.Errorf("%d domains give %d digests", len(domains), len(seen))
	}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,4}`), rapid.Int64Range(-9, 9), 1, 6).Draw(t, "fields")
		changed := maps.Clone(m)
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, "field")
		changed[key]++
		if authority.Digest(authority.DomainEffect, m) == authority.Digest(authority.DomainEffect, changed) {
			t.Fatalf("changing %q changes nothing", key)
		}
		delete(changed, key)
		if authority.Digest(authority.DomainEffect, m) == authority.Digest(authority.DomainEffect, changed) {
			t.Fatalf("dropping %q changes nothing", key)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("a value that cannot be canonical has a digest")
		}
	}()
	authority.Digest(authority.DomainEffect, 1.5)
}

// TestFresh: version 7 identifiers of the decision's time, ascending and never
// the same; the same seed gives the same names.
func TestFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seed [32]byte
		copy(seed[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		at := evidence.Time(rapid.Int64Range(0, 1<<47).Draw(t, "time"))
		f, again := authority.NewFresh(seed, at), authority.NewFresh(seed, at)
		last, salts := "", map[[16]byte]bool{}
		for i := range 300 {
			id := f.ID()
			if !authority.IsID(id) || id <= last || id != again.ID() {
				t.Fatalf("id %s after %s", id, last)
			}
			if ms := fmt.Sprintf("%012x", int64(at)); strings.ReplaceAll(id[:13], "-", "") != ms {
				t.Fatalf("id %s is not of time %s", id, ms)
			}
			last = id
			if i%3 == 0 {
				salt := f.Salt()
				if salts[salt] || salt != again.Salt() {
					t.Fatalf("salt %x", salt)
				}
				salts[salt] = true
			}
		}
		other := seed
		other[rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1
		if authority.NewFresh(seed, at).ID() == authority.NewFresh(other, at).ID() || authority.NewFresh(seed, at).Salt() == authority.NewFresh(other, at).Salt() {
			t.Fatal("another seed gives the same names")
		}
	})
}

// TestFreshAscendsFar: the ids of the largest decision still ascend.
func TestFreshAscendsFar(t *testing.T) {
	f, last := authority.NewFresh([32]byte{1}, now), ""
	for range 4095 {
		id := f.ID()
		if id <= last || !authority.IsID(id) {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

func TestIsID(t *testing.T) {
	good := "019cb73d-3271-7001-8f63-9b0873d64412"
	if !authority.IsID(good) {
		t.Fatal("a good id is none")
	}
	for _, variant := range "89ab" {
		if !authority.IsID(good[:19] + string(variant) + good[20:]) {
			t.Errorf("variant %c is refused", variant)
		}
	}
	for i := range good {
		for _, c := range "-gG/:`@Aé\x00" {
			if c == rune(good[i]) {
				continue
			}
			if bad := good[:i] + string(c) + good[i+1:]; authority.IsID(bad) {
				t.Errorf("%q is an id", bad)
			}
		}
	}
	for _, bad := range []string{"", good[:35], good + "0", strings.ReplaceAll(good, "-", ""), strings.ToUpper(good), good[:14] + "4" + good[15:], good[:19] + "7" + good[20:], good[:19] + "c" + good[20:], "{" + good[1:]} {
		if authority.IsID(bad) {
			t.Errorf("%q is an id", bad)
		}
	}
	for _, edge := range []string{"0", "9", "a", "f"} {
		if !authority.IsID(edge + good[1:]) {
			t.Errorf("%q is none", edge+good[1:])
		}
	}
}

func TestDenial(t *testing.T) {
	expired := fmt.Errorf("operate: %w", &authority.Denial{Reason: authority.PermitExpired})
	if !authority.Denied(expired, authority.Frozen, authority.PermitExpired) || authority.Denied(expired, authority.Frozen) || authority.Denied(expired) {
		t.Error("a denial is not told by its reason")
	}
	if authority.Denied(nil, authority.PermitExpired) || authority.Denied(errors.New(authority.PermitExpired), authority.PermitExpired) {
		t.Error("what is no denial is taken for one")
	}
	if got := (&authority.Denial{Reason: authority.PermitExpired, Detail: "The permit has expired."}).Error(); got != "PERMIT_EXPIRED: The permit has expired." {
		t.Errorf("error %q", got)
	}
}
