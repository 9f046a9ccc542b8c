package guardian_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
	"countersign/internal/supervision/guardian"
)

// shelf is an inventory with its chain.
type shelf struct {
	t      *testing.T
	now    evidence.Time
	i      *guardian.Inventory
	head   evidence.Link
	events []evidence.Event
	seeds  byte
}

func newShelf(t *testing.T) *shelf {
	return &shelf{t: t, now: dawn, i: &guardian.Inventory{}, head: evidence.Link{Hash: evidence.Genesis}}
}

func (s *shelf) do(f func(*guardian.Registering) *authority.Denial) *machine.Transition {
	s.t.Helper()
	s.seeds++
	d := guardian.BeginInventory(s.i, subject("default"), s.now, [32]byte{s.seeds})
	if denial := f(d); denial != nil {
		s.t.Fatal(denial)
	}
	t, err := d.Done()
	must(s.t, err)
	events, err := evidence.Seal(key, "default", s.head, d.Now().Time(), t.Drafts)
	must(s.t, err)
	s.events = append(s.events, events...)
	last := events[len(events)-1]
	s.head = evidence.Link{Sequence: last.Sequence, Hash: last.Hash}
	return t
}

func service(edits ...func(*guardian.Service)) guardian.Service {
	s := guardian.Service{Name: "Shop", Kind: "merchant", Environment: "local"}
	for _, f := range edits {
		f(&s)
	}
	return s
}

// Services and policies are listed in the order they came, in a chain that replays to
// the same inventory; a description stands beside the chain.
func TestInventory(t *testing.T) {
	s := newShelf(t)
	var id string
	origin := "http://127.0.0.1:8421"
	out := s.do(func(d *guardian.Registering) (denial *authority.Denial) {
		id, denial = d.Register(service(func(v *guardian.Service) { v.Origin = &origin }), "What it is.")
		return denial
	})
	if len(out.Texts) != 1 || out.Texts[0].Text != "What it is." {
		t.Fatalf("texts: %+v", out.Texts)
	}
	s.do(func(d *guardian.Registering) *authority.Denial { return d.List(policyID) })
	got := s.i.Service(id)
	if got == nil || got.Kind != "merchant" || *got.Origin != origin || got.CreatedAt != dawn || *got.Description != out.Texts[0].Commit() || len(s.i.Guardians) != 1 {
		t.Errorf("inventory: %+v", s.i)
	}
	if s.i.Service("other") != nil {
		t.Error("a service that is not there was found")
	}
	raw, err := canon.Marshal(s.i)
	must(t, err)
	if again, err := guardian.DecodeInventory(raw); err != nil || len(again.Services) != 1 {
		t.Errorf("decode: %+v, %v", again, err)
	}
	r := guardian.NewInventoryReplay()
	for _, e := range s.events {
		r.Apply(e)
	}
	again, err := canon.Marshal(r.State())
	must(t, err)
	if !r.Known() || len(r.Unlawful()) > 0 || !bytes.Equal(again, raw) {
		t.Errorf("replay: %t %+v\n%s\n%s", r.Known(), r.Unlawful(), again, raw)
	}
	for _, e := range s.events {
		if bytes.Contains(e.Data, []byte("What it is.")) {
			t.Errorf("the description stands in %s", e.Type)
		}
	}
}

func TestBadService(t *testing.T) {
	long := strings.Repeat("o", 201)
	for name, f := range map[string]func(*guardian.Service){
		"name":        func(s *guardian.Service) { s.Name = "" },
		"kind":        func(s *guardian.Service) { s.Kind = "shop" },
		"environment": func(s *guardian.Service) { s.Environment = "moon" },
		"origin":      func(s *guardian.Service) { s.Origin = &long },
	} {
		d := guardian.BeginInventory(&guardian.Inventory{}, subject("default"), dawn, [32]byte{1})
		if _, denial := d.Register(service(f), ""); denial == nil || denial.Reason != "INVALID_REQUEST" || !strings.HasPrefix(denial.Detail, "body."+name+": ") {
			t.Errorf("another %s: %v", name, denial)
		}
	}
	d := guardian.BeginInventory(&guardian.Inventory{}, subject("default"), dawn, [32]byte{1})
	if _, denial := d.Register(service(), strings.Repeat("d", 1001)); denial == nil || denial.Reason != "INVALID_REQUEST" {
		t.Errorf("a long description: %v", denial)
	}
}

// The bounds of a workspace hold.
func TestInventoryBounds(t *testing.T) {
	s := newShelf(t)
	origin := "https://" + strings.Repeat("o", 192)
	longest := service(func(v *guardian.Service) {
		v.Name, v.Environment, v.Origin = strings.Repeat(`"`, 80), "production", &origin
	})
	for range guardian.MaxServices {
		s.do(func(d *guardian.Registering) *authority.Denial {
			_, denial := d.Register(longest, strings.Repeat("d", 1000))
			return denial
		})
	}
	for n := range guardian.MaxPolicies {
		s.do(func(d *guardian.Registering) *authority.Denial {
			return d.List(fmt.Sprintf("01980000-0000-7000-8000-%012d", n))
		})
	}
	d := guardian.BeginInventory(s.i, subject("default"), s.now, [32]byte{1, 1})
	if _, denial := d.Register(service(), ""); denial == nil || denial.Reason != "WORKSPACE_LIMIT" {
		t.Errorf("one service more: %v", denial)
	}
	if denial := d.List("more"); denial == nil || denial.Reason != "WORKSPACE_LIMIT" {
		t.Errorf("one policy more: %v", denial)
	}
	raw, err := canon.Marshal(s.i)
	must(t, err)
	if len(raw) > 32<<10 {
		t.Errorf("a full inventory has %d bytes, a state may have 32 KiB", len(raw))
	}
}

func TestUnlawfulInventory(t *testing.T) {
	opened := timed{"inventory.opened", 0, &guardian.Opened{Subject: named("inventory", policyID, 1)}}
	registered := func(s guardian.Service) timed {
		s.ID, s.CreatedAt = "service", dawn
		return timed{"service.registered", 0, &guardian.Registered{Service: s}}
	}
	listed := timed{"guardian.listed", 0, &guardian.Listed{GuardianID: "policy"}}
	later := registered(service())
	later.after = time.Second
	var many, lists []timed
	for i := range guardian.MaxServices + 1 {
		s := service()
		s.ID, s.CreatedAt = fmt.Sprint(i), dawn
		many = append(many, timed{"service.registered", 0, &guardian.Registered{Service: s}})
	}
	for i := range guardian.MaxPolicies + 1 {
		lists = append(lists, timed{"guardian.listed", 0, &guardian.Listed{GuardianID: fmt.Sprint(i)}})
	}
	for _, c := range []struct {
		name, rule string
		events     []timed
	}{
		{"opened twice", "first-event", []timed{opened, opened}},
		{"a bad service", "service", []timed{opened, registered(service(func(s *guardian.Service) { s.Kind = "shop" }))}},
		{"a service twice", "service-twice", []timed{opened, registered(service()), registered(service())}},
		{"another time", "service-time", []timed{opened, later}},
		{"too many services", "service-limit", append([]timed{opened}, many...)},
		{"a policy twice", "guardian-twice", []timed{opened, listed, listed}},
		{"too many policies", "guardian-limit", append([]timed{opened}, lists...)},
		{"an event of a policy", "event-type", []timed{opened, {"guardian.edited", 0, &guardian.Edited{Revision: 2, Policy: policy()}}}},
	} {
		r := guardian.NewInventoryReplay()
		for _, e := range chained(t, c.events...) {
			r.Apply(e)
		}
		if got := r.Unlawful(); len(got) == 0 || got[0].Rule != c.rule {
			t.Errorf("%s: %+v, want %s first", c.name, got, c.rule)
		}
	}
}

// The types of both machines are those that the requirements and events.md name.
func TestEventTypes(t *testing.T) {
	want := "guardian.drafted guardian.edited guardian.listed guardian.published inventory.opened service.registered verification.completed verification.started"
	if got := strings.Join(guardian.EventTypes(), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
