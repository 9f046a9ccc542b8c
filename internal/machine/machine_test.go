package machine_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// sum is a machine that adds numbers: its chain begins with opened and holds at most six
// events.
type sum struct {
	machine.Progress
	Total int64 `json:"total"`
}

type event = machine.Event[sum]

type opened struct {
	Subject evidence.Subject `json:"subject"`
}

func (opened) EventType() string { return "sum.opened" }

func (e *opened) Apply(f *machine.Fold[sum]) {
	*f.State() = sum{}
	f.Start(e.Subject, e.Subject.ID == chainID)
}

type added struct {
	N    int64                `json:"n"`
	Note *evidence.Commitment `json:"note"`
}

func (added) EventType() string { return "sum.added" }

func (e *added) Apply(f *machine.Fold[sum]) {
	f.Must(e.N > 0, "positive", "only what is more than nothing is added")
	f.Must(e.N < 100, "small", "nothing large is added")
	f.State().Total += e.N
}

const chainID = "sum_1"

var (
	definition = machine.Definition[sum]{
		Kind: "sum", Version: 3, Limit: 6, Progress: func(s *sum) *machine.Progress { return &s.Progress },
		Events: func() []event { return []event{&opened{}, &added{}} },
	}
	key     = evidence.NewSigningKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	subject = evidence.Subject{Format: evidence.Format, Kind: "sum", ID: chainID, Workspace: "default", Issuer: "http://localhost:8420", Machine: 3}
	dawn    = evidence.TimeOf(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// raw is an event as it is stored.
type raw struct {
	kind, data, at string
	sequence       int64
}

func (r raw) event() evidence.Event {
	return evidence.Event{ID: fmt.Sprint("e", r.sequence), RunID: chainID, Sequence: r.sequence, Type: r.kind, Data: json.RawMessage(r.data), Timestamp: r.at}
}

// chain is a chain that opens and then adds the numbers, a second apart.
func chain(numbers ...int64) []raw {
	list := []raw{{"sum.opened", string(canon.MustMarshal(opened{subject})), dawn.String(), 1}}
	for i, n := range numbers {
		list = append(list, raw{"sum.added", fmt.Sprintf(`{"n":%d,"note":null}`, n), dawn.Add(time.Duration(i+1) * time.Second).String(), int64(i + 2)})
	}
	return list
}

func replay(of *machine.Definition[sum], each func(*machine.Fold[sum], event), list []raw) *machine.Replay[sum] {
	r := machine.NewReplay(of, each)
	for _, e := range list {
		r.Apply(e.event())
	}
	return r
}

// broken are the rules that a chain breaks, each with the sequence of its event.
func broken(r *machine.Replay[sum]) string {
	var list []string
	for _, u := range r.Unlawful() {
		if u.EventID != fmt.Sprint("e", u.Sequence) || u.Detail == "" {
			list = append(list, "misnamed")
		}
		list = append(list, fmt.Sprintf("%s@%d", u.Rule, u.Sequence))
	}
	return strings.Join(list, " ")
}

// A lawful chain is known, breaks nothing, and comes to its state.
func TestLawful(t *testing.T) {
	r := replay(&definition, nil, chain(1, 2, 3))
	want := sum{machine.Progress{Machine: 3, ID: chainID, CreatedAt: dawn, UpdatedAt: dawn.Add(3 * time.Second), Events: 4}, 6}
	if !r.Known() || len(r.Unlawful()) != 0 || *r.State() != want {
		t.Errorf("known %t, %v, %+v", r.Known(), r.Unlawful(), r.State())
	}
	if got := definition.Types(); !slices.Equal(got, []string{"sum.opened", "sum.added"}) {
		t.Errorf("types %v", got)
	}
}

// What is unlawful is named with its event, and one unlawful event does not hide the next.
func TestUnlawful(t *testing.T) {
	second := func(change func(*raw)) []raw {
		list := chain(1, 2)
		change(&list[1])
		return list
	}
	other := definition
	other.Limit = 0
	for _, c := range []struct {
		name  string
		of    *machine.Definition[sum]
		chain []raw
		want  string
		total int64
	}{
		{"a rule of its own", &definition, chain(1, 0, 2), "positive@3", 3},
		{"two events", &definition, chain(-5, 1, 100), "positive@2 small@4", 96},
		{"an unreadable time", &definition, second(func(e *raw) { e.at = "yesterday" }), "timestamp@2", 2},
		{"an earlier time", &definition, second(func(e *raw) { e.at = dawn.Add(-time.Millisecond).String() }), "time-order@2", 3},
		{"the same time", &definition, second(func(e *raw) { e.at = dawn.String() }), "", 3},
		{"as many events as it may hold", &definition, chain(1, 1, 1, 1, 1), "", 5},
		{"one more", &definition, chain(1, 1, 1, 1, 1, 1), "event-limit@7", 6},
		{"one more of a machine without a limit", &other, chain(1, 1, 1, 1, 1, 1), "", 6},
		{"an unknown type", &definition, second(func(e *raw) { e.kind = "sum.doubled" }), "event-type@2", 2},
		{"a member too many", &definition, second(func(e *raw) { e.data = `{"n":1,"note":null,"o":1}` }), "event-data@2", 2},
		{"a member left out", &definition, second(func(e *raw) { e.data = `{"n":1}` }), "event-data@2", 2},
		{"a member of another type", &definition, second(func(e *raw) { e.data = `{"n":"1","note":null}` }), "event-data@2", 2},
		{"another order", &definition, second(func(e *raw) { e.data = `{"note":null,"n":1}` }), "event-data@2", 2},
		{"no JSON", &definition, second(func(e *raw) { e.data = `{` }), "event-data@2", 2},
		{"nothing", &definition, second(func(e *raw) { e.data = `` }), "event-data@2", 2},
		{"a second beginning", &definition, second(func(e *raw) { e.kind, e.data = "sum.opened", chain()[0].data }), "first-event@2", 2},
	} {
		r := replay(c.of, nil, c.chain)
		if got := broken(r); got != c.want || !r.Known() || r.State().Total != c.total {
			t.Errorf("%s: known %t, breaks %q, want %q, comes to %d", c.name, r.Known(), got, c.want, r.State().Total)
		}
	}
	u := machine.Unlawful{Rule: "small", Detail: "nothing large is added", Sequence: 4}
	if u.Error() != "unlawful transition: small: nothing large is added" {
		t.Errorf("it says %s", u.Error())
	}
}

// A chain of another kind or machine, or that begins with something else, is foreign: it is
// not known, and nothing is said of what follows.
func TestForeign(t *testing.T) {
	first := func(change func(*evidence.Subject)) []raw {
		s, list := subject, chain(0)
		change(&s)
		list[0].data = string(canon.MustMarshal(opened{s}))
		return list
	}
	added := chain(1)
	added[0] = raw{"sum.added", `{"n":1,"note":null}`, dawn.String(), 1}
	named := chain(0)
	named[0].kind = "sum.added"
	for name, list := range map[string][]raw{
		"another kind":    first(func(s *evidence.Subject) { s.Kind = "product" }),
		"another machine": first(func(s *evidence.Subject) { s.Machine = 4 }),
		"another format":  first(func(s *evidence.Subject) { s.Format = "countersign-evidence/2" }),
		"no subject":      added, "another first event": named,
		"an unknown first event": {{"sum.doubled", chain()[0].data, dawn.String(), 1}},
		"no event":               nil,
	} {
		if r := replay(&definition, nil, list); r.Known() || len(r.Unlawful()) != 0 {
			t.Errorf("%s: known %t, %v", name, r.Known(), r.Unlawful())
		}
	}
	for name, c := range map[string]struct {
		list []raw
		want string
	}{
		"another id":          {first(func(s *evidence.Subject) { s.ID = "sum_2" }), "subject-id@1 positive@2"},
		"without a beginning": {chain(0)[1:], "first-event@2 positive@2"},
	} {
		if got := broken(replay(&definition, nil, c.list)); got != c.want {
			t.Errorf("%s: breaks %q, want %q", name, got, c.want)
		}
	}
}

// Whether an event begins a chain can be said by more than its type.
func TestBegins(t *testing.T) {
	one := definition
	one.Begins = func(e event) bool { o, is := e.(*opened); return is && o.Subject.Issuer != "" }
	if got := broken(replay(&one, nil, chain(1))); got != "" {
		t.Errorf("a beginning by its content breaks %q", got)
	}
	list, s := chain(1), subject
	s.Issuer = ""
	list[0].data = string(canon.MustMarshal(opened{s}))
	if got := broken(replay(&one, nil, list)); got != "first-event@1" {
		t.Errorf("no beginning by its content: %q", got)
	}
}

// Whoever replays may require of each event what no state remembers; it sees the state
// before the event.
func TestEach(t *testing.T) {
	var seen []int64
	r := replay(&definition, func(f *machine.Fold[sum], e event) {
		if a, is := e.(*added); is {
			seen = append(seen, f.State().Total, f.Sequence())
			f.Must(a.N != 2 || f.Now() != dawn.Add(2*time.Second) || f.ID() != "e3", "no-two", "two is not added")
		}
	}, chain(1, 2))
	if got := broken(r); got != "no-two@3" || !slices.Equal(seen, []int64{0, 2, 1, 3}) {
		t.Errorf("breaks %q, saw %v", got, seen)
	}
}

var seed = [32]byte{1, 2, 3}

// A decision emits events that are folded at once, by the rules of the replay; what it
// comes to is what its sealed chain replays to.
func TestDecide(t *testing.T) {
	s := &sum{}
	d := machine.Begin(&definition, s, dawn, seed)
	if d.Now() != dawn || d.State() != s || d.Next() != 1 {
		t.Errorf("at %s, next %d", d.Now(), d.Next())
	}
	d.Emit(&opened{d.Subject(evidence.Subject{Workspace: "default", Issuer: "http://localhost:8420"}, chainID)})
	note := d.Text("the first")
	d.Emit(&added{N: 5, Note: &note})
	text := "the second"
	if none, second := d.OptionalText(nil), d.OptionalText(&text); none != nil || second == nil || second.Length != 10 {
		t.Errorf("texts that may be missing: %v and %v", none, second)
	}
	d.NotAfter(dawn + 1)
	if d.Next() != 3 || s.Total != 5 || s.Events != 2 {
		t.Errorf("next %d, %+v", d.Next(), s)
	}
	out, err := d.Done()
	must(t, err)
	if len(out.Texts) != 2 || out.Texts[0].Commit() != note || note.Length != 9 || out.NotAfter != dawn+1 {
		t.Errorf("texts %+v", out.Texts)
	}
	events, err := evidence.Seal(key, chainID, evidence.Link{Hash: evidence.Genesis}, dawn.Time(), out.Drafts)
	must(t, err)
	r := machine.NewReplay(&definition, nil)
	for _, e := range events {
		r.Apply(e)
	}
	if !r.Known() || len(r.Unlawful()) != 0 || *r.State() != *s {
		t.Errorf("known %t, %v, %+v", r.Known(), r.Unlawful(), r.State())
	}
	stored, err := definition.Decode(canon.MustMarshal(s))
	if err != nil || *stored != *s {
		t.Errorf("stored %+v, %v", stored, err)
	}
	// A decision whose clock went back happens at the time of the newest event.
	if back := machine.Begin(&definition, s, dawn-1, seed); back.Now() != dawn {
		t.Errorf("a decision at %s", back.Now())
	}
	if nothing, err := machine.Begin(&definition, s, dawn, seed).Done(); err != nil || len(nothing.Drafts) != 0 {
		t.Errorf("nothing decided: %+v, %v", nothing, err)
	}
}

// A decision that breaks a rule of its machine comes to nothing that may be stored, and
// says the first.
func TestDecideUnlawfully(t *testing.T) {
	d := machine.Begin(&definition, &sum{}, dawn, seed)
	d.Emit(&opened{subject})
	d.Emit(&added{N: 0})
	d.Emit(&added{N: 100})
	out, err := d.Done()
	if u, is := err.(*machine.Unlawful); out != nil || !is || u.Rule != "positive" || u.Sequence != 2 || !authority.IsID(u.EventID) {
		t.Errorf("%+v, %v", out, err)
	}
}

// The names of a decision follow from seed and time and nothing else: the same give the
// same, another seed others, and none is given twice.
func TestNames(t *testing.T) {
	names := func(seed [32]byte, now evidence.Time) (list []string) {
		s := &sum{}
		d := machine.Begin(&definition, s, now, seed)
		d.Emit(&opened{subject})
		note := d.Text("a")
		d.Emit(&added{N: 1, Note: &note})
		out, err := d.Done()
		must(t, err)
		return []string{out.Drafts[0].ID, out.Drafts[1].ID, note.Text, d.Fresh().ID()}
	}
	first := names(seed, dawn)
	if again := names(seed, dawn); !slices.Equal(first, again) {
		t.Errorf("%v and %v", first, again)
	}
	all := slices.Concat(first, names([32]byte{4}, dawn))
	slices.Sort(all)
	if distinct := slices.Compact(slices.Clone(all)); len(distinct) != len(all) {
		t.Errorf("a name is given twice: %v", all)
	}
	for _, i := range []int{0, 1, 3} {
		if !authority.IsID(first[i]) || !strings.HasPrefix(strings.ReplaceAll(first[i], "-", ""), fmt.Sprintf("%012x", int64(dawn))) {
			t.Errorf("name %s", first[i])
		}
	}
}

// A stored state of another version of the machine is refused, and so is what is no state.
func TestDecode(t *testing.T) {
	for name, stored := range map[string]string{"another version": `{"machine":2}`, "nothing has happened": `{}`, "no state": `{"machine":3,"more":1}`, "no JSON": `{`} {
		if s, err := definition.Decode([]byte(stored)); err == nil || s != nil {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}
