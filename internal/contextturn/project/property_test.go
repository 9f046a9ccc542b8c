package project_test

import (
	"strings"
	"testing"
	"time"

	"countersign/internal/contextturn/project"

	"pgregory.net/rapid"
)

// Whatever is published in whatever order: each environment has selected what was stored
// for it last, its Builds are counted without a gap, and the chain replays to the state.
func TestAnyProject(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := newDesk(t)
		d.open("acme", "help")
		count, selected := map[string]int64{}, map[string]*project.Selection{}
		for range rapid.IntRange(0, 12).Draw(r, "steps") {
			d.now = d.now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Hour, -time.Hour}).Draw(r, "later"))
			environment := rapid.SampledFrom([]string{"production", "staging", "moon"}).Draw(r, "environment")
			digest := hash(rapid.SampledFrom(strings.Split("0123456789abcdef", "")).Draw(r, "digest"))
			draft := rapid.Bool().Draw(r, "draft")
			lawful := environment == "staging" || environment == "production" && !draft
			if _, reason := d.publish(environment, digest, draft); (reason == "") != lawful {
				r.Fatalf("%s, draft %t: %q", environment, draft, reason)
			}
			if !lawful {
				continue
			}
			s := &project.Selection{Environment: environment, Digest: digest, Draft: draft}
			if !draft {
				count[environment]++
				s.Number = count[environment]
			}
			selected[environment] = s
		}
		for _, environment := range []string{"production", "staging"} {
			got, want := d.state().Selection(environment), selected[environment]
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				r.Fatalf("%s has selected %+v, want %+v", environment, got, want)
			}
		}
		d.lawful()
	})
}

// Whatever happens to a client: exactly the token that was given last opens, none once it
// is revoked, and nothing else about it ever changes.
func TestAnyClient(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBadge(t)
		shared := rapid.Bool().Draw(r, "shared")
		if shared {
			b.share("production", "support", hash("a"))
		} else {
			b.create(request())
		}
		first, given, revoked := b.state(), "a", false
		for range rapid.IntRange(0, 10).Draw(r, "steps") {
			b.now = b.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(r, "later"))
			next := rapid.SampledFrom(strings.Split("0123456789bcdef", "")).Filter(func(s string) bool { return s != given }).Draw(r, "token")
			reason, rotation := "", true
			switch what := rapid.SampledFrom([]string{"rotate", "share", "revoke"}).Draw(r, "do"); {
			case what == "revoke":
				reason, revoked, rotation = b.revoke(), true, false
				if reason != "" {
					r.Fatalf("revoked: %q", reason)
				}
			case what == "share" && shared:
				reason = b.share("production", "support", hash(next))
			default:
				reason = b.rotate(hash(next))
			}
			if rotation && (reason == "") == revoked {
				r.Fatalf("rotated: %q, revoked %t", reason, revoked)
			}
			if rotation && !revoked {
				given = next
				first.Generation++
			}
		}
		s := b.state()
		if s.TokenHash != hash(given) || s.Generation != first.Generation || s.Revoked() != revoked {
			r.Fatalf("%+v, given %s, revoked %t", s, given, revoked)
		}
		if s.ID != first.ID || s.Project != first.Project || s.Name != first.Name || s.Kind != first.Kind || s.Profile != first.Profile || s.Environment != first.Environment || s.TurnProtocol != first.TurnProtocol {
			r.Fatalf("%+v was %+v", s, first)
		}
		b.lawful()
	})
}
