package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/canon"
	"countersign/internal/keys"
)

var everyByte = flag.Bool("everybyte", false, "change every byte of the demo's exports, not one of a stride; takes minutes")

// stride is the distance of the bytes of a whole file that are changed, a prime so
// that it does not keep step with what repeats in a file.
func stride() int {
	switch {
	case *everyByte:
		return 1
	case raced():
		return 1999
	}
	return 61
}

// eventMembers are the members of an event (H-151, G-15).
var eventMembers = []string{"data", "hash", "id", "keyId", "previousHash", "runId", "sequence", "signature", "timestamp", "type"}

// demoLeft is the evidence that one demo left, with the keys of its control plane.
type demoLeft struct {
	dir     string
	keys    evidence.Keys
	signing evidence.SigningKey
	exports []demoExport
}

type demoExport struct {
	name string
	file []byte
	document
}

func showDemo(t *testing.T) demoLeft {
	t.Helper()
	s := demoLeft{dir: t.TempDir()}
	if got, out := status(t, "demo", "--dir", s.dir); got != 0 {
		t.Fatalf("the demo ended with status %d\n%s", got, out)
	}
	list, err := os.ReadFile(s.path("evidence.pub"))
	must(t, err)
	s.keys, err = evidence.ParseKeys(list)
	must(t, err)
	k, err := keys.Load(s.path("control"))
	must(t, err)
	s.signing = k.Evidence()
	for _, name := range []string{"evidence.json", "evidence-refused.json"} {
		file, err := os.ReadFile(s.path(name))
		must(t, err)
		s.exports = append(s.exports, demoExport{name, file, openDocument(t, file)})
	}
	return s
}

func (s demoLeft) path(name string) string { return filepath.Join(s.dir, name) }

// verdict is what a verification comes to: the exit status of the command, and
// the checks that failed.
type verdict struct {
	status int
	failed []evidence.Check
	texts  evidence.Texts
}

// integrity verifies an export as the command does, short of receipts and
// lawfulness: what fails here fails there. The signatures are checked by the rule
// of the standard library, each different one once.
func (s demoLeft) integrity(file []byte, once *evidence.Batch) verdict {
	report, err := evidence.Verify(bytes.NewReader(file), s.keys, evidence.Options{Workers: 1, Batch: once})
	if err != nil {
		return verdict{status: statusUsage}
	}
	v := verdict{texts: report.Texts}
	for _, r := range report.Results {
		if !r.OK {
			v.status = statusDiffers
			v.failed = append(v.failed, r.Check)
		}
	}
	return v
}

// checkedOnce remembers the answer for each signature.
func checkedOnce() *evidence.Batch {
	type signature struct {
		public  [ed25519.PublicKeySize]byte
		message [32]byte
		bytes   [ed25519.SignatureSize]byte
	}
	var answers sync.Map
	return &evidence.Batch{Rule: evidence.SignatureRule, Valid: func(list []evidence.Signature) bool {
		return !slices.ContainsFunc(list, func(s evidence.Signature) bool {
			key := signature{[32]byte(s.Public), [32]byte(s.Message), [64]byte(s.Signature)}
			answer, known := answers.Load(key)
			if !known {
				answer = ed25519.Verify(s.Public, s.Message, s.Signature)
				answers.Store(key, answer)
			}
			return !answer.(bool)
		})
	}}
}

// try is one change of an export.
type try struct {
	kind, name string
	file       func() []byte
	want       verdict // texts are compared when its status is 0
	orRefused  bool    // 2 will do as well: a changed byte may leave the form of an export
}

// tries collects the changes of one export.
type tries struct {
	demoExport
	other demoExport
	list  []try
}

func (c *tries) add(kind, name string, file func() []byte) {
	c.list = append(c.list, try{kind: kind, name: name, file: file, want: verdict{status: statusDiffers}})
}

func (c *tries) change(kind, name string, change func() document) {
	c.add(kind, name, func() []byte { return change().bytes() })
}

// flip changes the byte at a place of the file.
func (c *tries) flip(kind, name string, at int) {
	c.add(kind, fmt.Sprintf("%s, byte %d", name, at), func() []byte {
		file := bytes.Clone(c.file)
		file[at] ^= 1
		return file
	})
	c.list[len(c.list)-1].orRefused = true
}

// raced reports whether the race detector is on. A verification then takes about
// eight times as long, and of each event one member is tried with a byte changed and
// another one with another value, and every third event is dropped, moved or cut off.
// Without it everything is: `make check` does that.
var raced = sync.OnceValue(func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

const (
	kindByte     = "a byte of the file"
	kindFlip     = "a byte of a member"
	kindMember   = "a member of an event"
	kindData     = "a member of an event's data"
	kindDrop     = "an event dropped"
	kindSwap     = "events swapped"
	kindTruncate = "truncated"
	kindSplice   = "an event of another run"
	kindText     = "a text"
	kindErased   = "a text erased"
	kindEnvelope = "a member of the envelope"
)

// bytesOfMembers changes bytes of every member of every event: first, middle and
// last of the value. With the race detector on it takes one of the three, of one member
// in turn; [tries.members] takes another one.
func (c *tries) bytesOfMembers(t *testing.T) {
	for i, members := range c.values(t, c.file) {
		for j, name := range slices.Sorted(maps.Keys(members)) {
			s := members[name]
			places := []int{s.start, (s.start + s.end) / 2, s.end - 1}
			if raced() {
				if (i+j)%len(eventMembers) != 0 {
					continue
				}
				places = places[i%3 : i%3+1]
			}
			for _, at := range slices.Compact(places) {
				c.flip(kindFlip, fmt.Sprintf("event %d: %s", i+1, name), at)
			}
		}
	}
}

// bytesOfFile changes bytes everywhere.
func (c *tries) bytesOfFile() {
	for at := 0; at < len(c.file); at += stride() {
		c.flip(kindByte, "file", at)
	}
	c.flip(kindByte, "file", len(c.file)-1)
	c.add(kindByte, "one byte more", func() []byte { return append(bytes.Clone(c.file), '\n') })
	c.add(kindByte, "one byte less", func() []byte { return c.file[:len(c.file)-1] })
	for i := range 2 {
		c.list[len(c.list)-1-i].orRefused = true
	}
}

// another is a value of the member that differs from the event's: the next one of
// the chain, of the same type of event if there is one, else of the other run. A
// value that all events share gets one that nobody has.
func (c *tries) another(i int, name string) []byte {
	n := len(c.events)
	var found []byte
	for k := 1; k < n; k++ {
		e := c.events[(i+k)%n]
		if bytes.Equal(e.object[name], c.events[i].object[name]) {
			continue
		}
		if found == nil || name == "data" && bytes.Equal(e.object["type"], c.events[i].object["type"]) {
			found = e.object[name]
		}
		if name != "data" || bytes.Equal(e.object["type"], c.events[i].object["type"]) {
			break
		}
	}
	if found != nil {
		return found
	}
	if other := c.other.events[0].object[name]; !bytes.Equal(other, c.events[i].object[name]) {
		return other
	}
	return []byte(`"` + strings.Repeat("0", len(c.events[i].object[name])-2) + `"`)
}

func (c *tries) members() {
	for i, e := range c.events {
		for j, name := range e.names() {
			if raced() && (i+j)%len(eventMembers) != len(eventMembers)/2 {
				continue
			}
			c.change(kindMember, fmt.Sprintf("event %d: %s", i+1, name), func() document {
				return c.withEvent(i, e.with(name, c.another(i, name)))
			})
		}
	}
}

// data takes each member out of each event's data.
func (c *tries) data(t *testing.T) {
	if raced() {
		return
	}
	for i, e := range c.events {
		var data object
		must(t, json.Unmarshal(e.object["data"], &data))
		for _, name := range data.names() {
			c.change(kindData, fmt.Sprintf("event %d: %s", i+1, name), func() document {
				return c.withEvent(i, e.with("data", data.with(name, nil).bytes()))
			})
		}
	}
}

// everyEvent is the distance of the events that are dropped, moved and cut off.
func everyEvent() int {
	if raced() {
		return 3
	}
	return 1
}

func (c *tries) order() {
	n := len(c.events)
	for i := 0; i < n; i += everyEvent() {
		rest := func() document { return c.withEvents(c.events[:i], c.events[i+1:]) }
		c.change(kindDrop, fmt.Sprintf("event %d", i+1), rest)
		c.change(kindDrop, fmt.Sprintf("event %d, count and head adjusted", i+1), func() document { return rest().summed() })
		if i+1 < n {
			swapped := func() document {
				return c.withEvents(c.events[:i], []event{c.events[i+1], c.events[i]}, c.events[i+2:])
			}
			c.change(kindSwap, fmt.Sprintf("events %d and %d", i+1, i+2), swapped)
			c.change(kindTruncate, fmt.Sprintf("behind event %d", i+1), func() document { return c.withEvents(c.events[:i+1]) })
			c.change(kindTruncate, fmt.Sprintf("behind event %d, count, head and texts adjusted", i+1), func() document { return c.withEvents(c.events[:i+1]).summed() })
		}
		// The other run may be shorter; its events then come again.
		theirs := c.other.events[i%len(c.other.events)]
		c.change(kindSplice, fmt.Sprintf("event %d", i+1), func() document { return c.withEvent(i, theirs) })
	}
}

func (c *tries) changeTexts(t *testing.T) {
	for _, name := range c.texts.names() {
		var text object
		must(t, json.Unmarshal(c.texts[name], &text))
		put := func(how, name string, value func() []byte) {
			c.change(kindText, how+" "+name, func() document { return c.withText(name, value()) })
		}
		put("salt of", name, func() []byte { return text.with("salt", turned(text["salt"])).bytes() })
		put("text of", name, func() []byte { return text.with("text", turned(text["text"])).bytes() })
		put("one word more in", name, func() []byte {
			return text.with("text", append(bytes.Clone(text["text"][:len(text["text"])-1]), ` more"`...)).bytes()
		})
		c.change(kindText, "another name of "+name, func() document {
			return c.withText(name, nil).withText(strings.Repeat("0", len(name)), text.bytes())
		})
		c.change(kindErased, name, func() document { return c.withText(name, nil) })
		erased := &c.list[len(c.list)-1].want
		erased.status, erased.texts = 0, evidence.Texts{Present: len(c.texts) - 1, Erased: 1}
	}
	c.change(kindErased, "all", func() document { d := c.document; d.texts = object{}; return d })
	erased := &c.list[len(c.list)-1].want
	erased.status, erased.texts = 0, evidence.Texts{Erased: len(c.texts)}
	stray := evidence.NewText([16]byte{1}, "stray")
	c.change(kindText, "added", func() document {
		return c.withText(stray.Commitment, object{"salt": canon.MustMarshal(canon.EncodeBase64(stray.Salt)), "text": canon.MustMarshal(stray.Text)}.bytes())
	})
	for _, name := range c.other.texts.names()[:1] {
		c.change(kindText, "added from the other run", func() document { return c.withText(name, c.other.texts[name]) })
	}
}

// turned is a string in which a character about the middle is its neighbour of the
// same alphabet: hex stays hex and base64url stays base64url. A character behind a
// backslash is left alone.
func turned(s []byte) []byte {
	s = bytes.Clone(s)
	for at := len(s) / 2; at > 0; at-- {
		if s[at-1] == '\\' {
			continue
		}
		switch b := s[at]; {
		case b == '9' || b == 'f' || b == 'z' || b == 'Z':
			s[at]--
			return s
		case b >= '0' && b < '9' || b >= 'a' && b < 'z' || b >= 'A' && b < 'Z':
			s[at]++
			return s
		}
	}
	panic("no character to turn")
}

func (c *tries) changeEnvelope(t *testing.T) {
	set := func(name, how string, value []byte) {
		c.change(kindEnvelope, name+" "+how, func() document { return c.withMember(name, value) })
	}
	for _, name := range c.envelope.names() {
		switch name {
		case "count":
			set(name, "one more", fmt.Append(nil, len(c.events)+1))
			set(name, "one less", fmt.Append(nil, len(c.events)-1))
		case "format":
			set(name, "of another version", []byte(`"countersign-export/2"`))
			c.list[len(c.list)-1].want.status = statusUsage // what it says of itself is no export
		case "exportedAt":
			set(name, "later", []byte(`"2099-01-01T00:00:00.000Z"`))
			set(name, "of an event", c.events[0].object["timestamp"])
		case "subject":
			set(name, "of the other run", c.other.envelope[name])
			var subject object
			must(t, json.Unmarshal(c.envelope[name], &subject))
			for _, member := range subject.names() {
				if member == "machine" {
					set(name, member, subject.with(member, []byte("99")).bytes())
				} else if member != "format" {
					set(name, member, subject.with(member, turned(subject[member])).bytes())
				}
			}
		default:
			set(name, "turned", turned(c.envelope[name]))
		}
		if other := c.other.envelope[name]; !bytes.Equal(other, c.envelope[name]) {
			set(name, "from the other export", other)
		}
	}
	set("head", "of the event before", c.events[len(c.events)-2].object["hash"])
	c.change(kindEnvelope, "all of the other export", func() document { d := c.document; d.envelope = c.other.envelope; return d })
}

// run makes every change and returns how many there were of each kind, and of how
// many a check was the only one to find them.
func (c *tries) run(t *testing.T, s demoLeft) (counts map[string]int, alone map[evidence.Check]int) {
	t.Helper()
	counts, alone = map[string]int{}, map[evidence.Check]int{}
	once := checkedOnce()
	verdicts := make([]verdict, len(c.list))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				file := c.list[i].file()
				if bytes.Equal(file, c.file) {
					verdicts[i].status = -1
					continue
				}
				verdicts[i] = s.integrity(file, once)
			}
		})
	}
	for i := range c.list {
		next <- i
	}
	close(next)
	workers.Wait()
	for i, try := range c.list {
		got, want := verdicts[i], try.want
		counts[try.kind]++
		if len(got.failed) == 1 {
			alone[got.failed[0]]++
		}
		fits := got.status == want.status || try.orRefused && got.status == statusUsage
		if !fits || want.status == 0 && got.texts != want.texts {
			t.Errorf("%s: %s: %s: status %d %q, texts %+v; want %d", c.name, try.kind, try.name, got.status, got.failed, got.texts, want.status)
		}
	}
	return counts, alone
}

// The evidence that the demo leaves verifies with the trusted key, and fails when
// any byte of it is changed, an event is dropped, moved, cut off or comes from
// another run, a text is another, or the envelope says something else. Only the
// erasure of texts is lawful. How many changes were tried of each kind stands in
// the log; all bytes of both files take some minutes:
//
//	go test ./cmd/countersign -run TestTamperedDemo/tried -v -everybyte
func TestTamperedDemo(t *testing.T) {
	t.Parallel()
	s := showDemo(t)
	t.Run("tried", func(t *testing.T) {
		for i, x := range s.exports {
			if got, _ := status(t, "verify", s.path(x.name), "--key", s.path("evidence.pub"), "--store-key", s.path("store/keys/receipt.pub")); got != 0 {
				t.Fatalf("%s: the untouched export ends with status %d", x.name, got)
			}
			if got := s.integrity(x.file, checkedOnce()); got.status != 0 || got.texts != (evidence.Texts{Present: len(x.texts)}) {
				t.Fatalf("%s: the untouched export: %+v", x.name, got)
			}
			s.try(t, x, s.exports[1-i])
		}
	})
	t.Run("sealed again", s.sealedAgain)
	t.Run("receipts of the store", s.receipts)
}

// try changes one export in every way.
func (s demoLeft) try(t *testing.T, x, other demoExport) {
	start := time.Now()
	c := &tries{demoExport: x, other: other}
	c.bytesOfFile()
	c.bytesOfMembers(t)
	c.members()
	c.data(t)
	c.order()
	c.changeTexts(t)
	c.changeEnvelope(t)
	counts, alone := c.run(t, s)
	s.byCommand(t, c)

	n := len(x.events)
	if n < 20 || len(x.texts) < 5 {
		t.Errorf("%s: %d events and %d texts are no demo", x.name, n, len(x.texts))
	}
	perMember, moved := n*len(eventMembers), n/everyEvent()
	if raced() {
		perMember = n
	}
	for i, e := range x.events {
		if !slices.Equal(e.names(), eventMembers) {
			t.Errorf("%s: event %d has the members %q, want %q", x.name, i+1, e.names(), eventMembers)
		}
	}
	for kind, least := range map[string]int{
		kindByte: len(x.file) / stride(), kindFlip: perMember, kindMember: perMember, kindDrop: 2 * moved, kindSwap: moved - 1, kindTruncate: 2 * (moved - 1),
		kindSplice: moved, kindText: 4*len(x.texts) + 2, kindErased: len(x.texts) + 1, kindEnvelope: 18,
	} {
		if counts[kind] < least {
			t.Errorf("%s: %s: %d tries, want at least %d", x.name, kind, counts[kind], least)
		}
	}
	// Negative control: without one of these checks some change would go unseen.
	for _, check := range []evidence.Check{evidence.CheckHashes, evidence.CheckSignatures, evidence.CheckManifest, evidence.CheckTexts} {
		if alone[check] == 0 {
			t.Errorf("%s: no change is found by %q alone", x.name, check)
		}
	}
	t.Logf("%s: %d events, %d bytes: %d tries in %v", x.name, n, len(x.file), len(c.list), time.Since(start).Round(time.Millisecond))
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("  %5d  %s", counts[kind], kind)
	}
}

// byCommand asks the program itself about the middle one of each kind.
func (s demoLeft) byCommand(t *testing.T, c *tries) {
	t.Helper()
	byKind := map[string][]try{}
	for _, try := range c.list {
		byKind[try.kind] = append(byKind[try.kind], try)
	}
	if raced() {
		maps.DeleteFunc(byKind, func(kind string, _ []try) bool { return kind != kindMember && kind != kindErased })
	}
	for kind, list := range byKind {
		try := list[len(list)/2]
		name := s.path("changed.json")
		must(t, os.WriteFile(name, try.file(), 0o600))
		got, out := status(t, "verify", name, "--key", s.path("evidence.pub"))
		if got != try.want.status && !(try.orRefused && got == statusUsage) {
			t.Errorf("%s: %s: %s: verify ends with status %d, want %d\n%s", c.name, kind, try.name, got, try.want.status, out)
		}
		if said := strings.Contains(out, "VERIFIED  every check holds"); said != (got == 0) || kind == kindErased && !strings.Contains(out, " 1 erased") {
			t.Errorf("%s: %s: %s: verify says\n%s", c.name, kind, try.name, out)
		}
	}
}

// resealed is the chain with its events' data as edit leaves it, sealed anew from
// beginning to end as whoever holds the key would; edit returns nil to drop an
// event.
func (x demoExport) resealed(t *testing.T, key evidence.SigningKey, edit func(evidence.Event) []byte) []byte {
	t.Helper()
	read, err := evidence.ReadExport(bytes.NewReader(x.file))
	must(t, err)
	at := evidence.Link{Hash: evidence.Genesis}
	var events []evidence.Event
	var told bytes.Buffer
	for _, e := range read.Events {
		data := edit(e)
		if data == nil {
			continue
		}
		now, err := evidence.ParseTime(e.Timestamp)
		must(t, err)
		sealed, err := evidence.Seal(key, e.RunID, at, now, []evidence.Draft{{ID: e.ID, Type: e.Type, Data: json.RawMessage(data)}})
		must(t, err)
		events = append(events, sealed[0])
		at = evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
		told.Write(data)
	}
	texts := slices.DeleteFunc(read.Texts, func(text evidence.Text) bool { return !strings.Contains(told.String(), text.Commitment) })
	var out bytes.Buffer
	must(t, evidence.WriteExport(&out, key, read.ExportedAt.Time(), evidence.Source{
		Subject: read.Subject, Head: at,
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		},
		Texts: func(yield func(evidence.Text, error) bool) {
			for _, text := range texts {
				if !yield(text, nil) {
					return
				}
			}
		},
	}))
	return out.Bytes()
}

func untouched(e evidence.Event) []byte { return e.Data }

// audited verifies everything and returns the checks that failed.
func audited(t *testing.T, file []byte, o audit.Options) (*audit.Report, []evidence.Check) {
	t.Helper()
	report, err := audit.Verify(bytes.NewReader(file), o)
	must(t, err)
	var failed []evidence.Check
	for _, r := range report.Results {
		if !r.OK {
			failed = append(failed, r.Check)
		}
	}
	return report, failed
}

// Whoever seals a chain anew needs the key in use; whoever holds it still has to
// tell a lawful story.
func (s demoLeft) sealedAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "other")
	must(t, keys.Init(folder))
	k, err := keys.Load(folder)
	must(t, err)
	other := k.Evidence()
	theirs := evidence.TrustedKey{Public: other.Public()}
	richer := func(e evidence.Event) []byte {
		return bytes.Replace(e.Data, []byte(`"budgetCents":"13700"`), []byte(`"budgetCents":"99999"`), 1)
	}
	for _, x := range s.exports {
		forged := x.resealed(t, other, richer)
		if !bytes.Contains(forged, []byte(`"budgetCents":"99999"`)) {
			t.Fatalf("%s: nothing was changed before it was sealed", x.name)
		}
		report, failed := audited(t, forged, audit.Options{Keys: s.keys})
		if want := []evidence.Check{evidence.CheckKeys, evidence.CheckSignatures, evidence.CheckManifest}; report.OK() || !slices.Equal(failed, want) {
			t.Errorf("%s sealed with another key: found by %q, want %q", x.name, failed, want)
		}
		// It may name the trusted key, and then the signatures are not that key's.
		named := bytes.ReplaceAll(forged, []byte(other.ID), []byte(s.signing.ID))
		named = bytes.ReplaceAll(named, []byte(canon.EncodeBase64(other.Public())), []byte(canon.EncodeBase64(s.signing.Public())))
		report, failed = audited(t, named, audit.Options{Keys: s.keys})
		if want := []evidence.Check{evidence.CheckSignatures, evidence.CheckManifest}; report.OK() || !slices.Equal(failed, want) {
			t.Errorf("%s sealed with another key under the trusted name: found by %q, want %q", x.name, failed, want)
		}
		// An old key of the same issuer is trusted for what it signed in its time.
		old := theirs
		old.NotAfter = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		report, failed = audited(t, forged, audit.Options{Keys: append(evidence.Keys{old}, s.keys...)})
		if report.OK() || !slices.Equal(failed, []evidence.Check{evidence.CheckKeyOrder}) {
			t.Errorf("%s sealed with an old key: found by %q, want key order", x.name, failed)
		}
		// Negative control: for who trusts that key it is sound, so that nothing but
		// the trust in keys has found it.
		if report, failed = audited(t, forged, audit.Options{Keys: evidence.Keys{theirs}}); len(failed) > 0 || !report.Receipts.OK {
			t.Errorf("%s, trusting its key: found by %q, receipts %+v", x.name, failed, report.Receipts)
		}

		// The right key, the same story: lawful. Without the claim of the first permit
		// everything adds up but the rules.
		if report, _ = audited(t, x.resealed(t, s.signing, untouched), audit.Options{Keys: s.keys}); !report.OK() {
			t.Errorf("%s sealed again as it was does not verify", x.name)
		}
		dropped := false
		report, failed = audited(t, x.resealed(t, s.signing, func(e evidence.Event) []byte {
			if e.Type == "permit.claimed" && !dropped {
				dropped = true
				return nil
			}
			return e.Data
		}), audit.Options{Keys: s.keys})
		if !dropped || report.OK() || len(failed) > 0 || report.Lawfulness.Proved || len(report.Lawfulness.Unlawful) == 0 {
			t.Fatalf("%s without a claim: found by %q, lawfulness %+v", x.name, failed, report.Lawfulness)
		}
		if first := report.Lawfulness.Unlawful[0]; first.Rule != "dispatch-without-claim" {
			t.Errorf("%s without a claim: breaks the rule %q, want dispatch-without-claim", x.name, first.Rule)
		}
	}
}

// What the store signed stays its own: the holder of the evidence key cannot
// change a part of a receipt or hand one to another event, with the store's key
// pinned in the chain or given from outside.
func (s demoLeft) receipts(t *testing.T) {
	given, err := readKeys(s.path("store/keys/receipt.pub"), "--store-key", dispatch.ParseKeys)
	must(t, err)
	tried := 0
	for _, x := range s.exports {
		tokens := map[int]string{} // by index of the event
		for i, e := range x.events {
			var data struct{ Receipt *string }
			must(t, json.Unmarshal(e.object["data"], &data))
			if data.Receipt != nil {
				tokens[i] = *data.Receipt
			}
		}
		if len(tokens) == 0 {
			t.Fatalf("%s holds no receipt of the store", x.name)
		}
		for i, token := range tokens {
			changed := map[string]string{"of another run": ""}
			parts := strings.Split(token, ".")
			for p, part := range parts {
				damaged := slices.Clone(parts)
				damaged[p] = string(turned([]byte(part)))
				changed[fmt.Sprintf("part %d", p+1)] = strings.Join(damaged, ".")
			}
			for _, other := range s.exports {
				for k, e := range other.events {
					var data struct{ Receipt *string }
					must(t, json.Unmarshal(e.object["data"], &data))
					if data.Receipt != nil && *data.Receipt != token && (other.name != x.name || k != i) {
						changed["of another run"] = *data.Receipt
					}
				}
			}
			for how, with := range changed {
				if with == "" || with == token {
					t.Fatalf("%s, event %d: nothing to put in: %s", x.name, i+1, how)
				}
				tried++
				file := x.resealed(t, s.signing, func(e evidence.Event) []byte {
					return bytes.Replace(e.Data, []byte(token), []byte(with), 1)
				})
				o := audit.Options{Keys: s.keys}
				if tried%2 == 0 {
					o.StoreKeys = given
				}
				report, failed := audited(t, file, o)
				if report.OK() || report.Receipts.OK || len(failed) > 0 || report.Receipts.Findings[0].Sequence != int64(i+1) {
					t.Errorf("%s, receipt of event %d, %s: receipts %+v, also found by %q", x.name, i+1, how, report.Receipts, failed)
				}
			}
		}
	}
	if tried < 4*5 {
		t.Errorf("%d tries, want four for each of at least five receipts", tried)
	}
	t.Logf("%d tries", tried)
}
