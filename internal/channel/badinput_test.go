package channel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel/edge"
)

// standing is a clock that does not move, so that nothing expires on a slow
// machine.
func standing(c *config) {
	now := time.Now()
	c.now = func() time.Time { return now }
}

// badBody is a body that must not get past the reader.
type badBody struct {
	name string
	raw  []byte
}

// Where the values go that the grammar of JSON bodies forbids: a text and an
// integer of the good body.
const (
	textMark   = "@text@"
	numberMark = 424242
)

// badBodies is the list, made from a good body with the marks in it.
func badBodies(good map[string]any) []badBody {
	raw := mustJSON(good)
	list := []badBody{
		{"unknown member", join(`{"zzz":"x",`, raw[1:])},
		{"trailing number", join(raw, "1")},
		{"trailing object", join(raw, "{}")},
		{"trailing comma", join(raw[:len(raw)-1], ",}")},
		{"comment", join(raw, "/* */")},
		{"byte order mark", join("\xef\xbb\xbf", raw)},
		{"an array", []byte("[]")}, {"a string", []byte(`"x"`)}, {"a number", []byte("1")}, {"null", []byte("null")},
		{"cut", raw[:len(raw)-1]},
		{"single quotes", []byte(`{'a':1}`)},
		{"not JSON", []byte("action=buy")},
		{"broken UTF-8", []byte("\xff\xfe")},
		{"only blanks", []byte("  ")},
		{"deep nesting", join(strings.Repeat("[", 20_000), strings.Repeat("]", 20_000))},
		{"deep nesting of objects", join(strings.Repeat(`{"a":`, 9_000), "1", strings.Repeat("}", 9_000))},
	}
	for name, value := range good {
		member := join(mustJSON(name), ":", mustJSON(value))
		list = append(list,
			badBody{"duplicate member " + name, join("{", member, ",", raw[1:])},
			badBody{"wrong case " + name, bytes.Replace(raw, mustJSON(name), mustJSON(strings.ToUpper(name[:1])+name[1:]), 1)})
		for _, other := range []string{`"x"`, "1", "true", "[]", "{}", "null"} {
			if kindOf(value) != kindOf(decodedOrNil(other)) {
				list = append(list, badBody{"type of " + name + ": " + other, bytes.Replace(raw, member, join(mustJSON(name), ":", other), 1)})
			}
		}
	}
	for name, value := range map[string]string{
		"NUL": `"a\u0000b"`, "raw NUL": "\"a\x00b\"", "lone high surrogate": `"\ud800"`, "lone low surrogate": `"\udc00x"`,
		"reversed surrogates": `"\udc00\ud800"`, "broken UTF-8 inside": "\"a\xffb\"", "overlong UTF-8": "\"\xc0\xaf\"", "raw line feed": "\"a\nb\"",
	} {
		if text := mustJSON(textMark); bytes.Contains(raw, text) {
			list = append(list, badBody{name, bytes.Replace(raw, text, []byte(value), 1)})
		}
	}
	for _, value := range []string{"1.5", "1.0", "1e3", "01", "+1", "9007199254740993", "-9007199254740993", "NaN", "Infinity", "0x10"} {
		if number := fmt.Append(nil, numberMark); bytes.Contains(raw, number) {
			list = append(list, badBody{"number " + value, bytes.Replace(raw, number, []byte(value), 1)})
		}
	}
	return list
}

func decodedOrNil(raw string) any {
	var v any
	if raw != "null" {
		v = map[byte]any{'"': "", '1': 1, 't': true, '[': []any{}, '{': map[string]any{}}[raw[0]]
	}
	return v
}

// kindOf names the JSON type.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func join(parts ...any) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.WriteString(p)
		case []byte:
			b.Write(p)
		}
	}
	return b.Bytes()
}

// replaced is body with the marks replaced by good values.
func replaced(body map[string]any, text string, number int) []byte {
	raw := bytes.ReplaceAll(mustJSON(body), mustJSON(textMark), mustJSON(text))
	return bytes.ReplaceAll(raw, fmt.Append(nil, numberMark), fmt.Append(nil, number))
}

// Bad input of the issue, on every body: the status and reason of the texts; no
// run, no event, no permit; and the next good request works.
func TestBadInput(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	c := h.agent("local")
	c.cycle("merchant.catalog")
	report := c.report("add:fieldwork-keyboard:1")
	report["goalRestatement"] = textMark
	report["candidates"].([]any)[0].(map[string]any)["action"].(map[string]any)["args"] = map[string]any{"productId": "fieldwork-keyboard", "quantity": numberMark}
	create := createBody("local")
	create["instruction"] = textMark
	create["terms"] = map[string]any{"origin": "local", "productId": "fieldwork-keyboard", "quantity": numberMark, "addressRef": "addr_home", "maxTotalCents": "13700"}

	var live *permit // of the report's good request
	bodies := []struct {
		name, reason string
		body         map[string]any
		optional     bool
		send         func(body any, edits ...edit) answer
		good         []byte
		status       int // of the good request
	}{
		{"sign-in", "INVALID_REQUEST", map[string]any{"secret": textMark}, false, func(body any, edits ...edit) answer {
			return h.do("POST", ownerPrefix+"/session", body, append([]edit{h.asOwner("")}, edits...)...)
		}, mustJSON(map[string]any{"secret": h.secret}), 200},
		{"create-run", "INVALID_REQUEST", create, false, func(body any, edits ...edit) answer {
			return h.owner("POST", "/runs", body, edits...)
		}, replaced(create, "Buy a keyboard.", 1), 201},
		{"submit-report", "MALFORMED_PROPOSAL", report, false, func(body any, edits ...edit) answer {
			return c.ask("POST", "/turns", body, edits...)
		}, replaced(report, "Buy a keyboard.", 1), 200},
		{"execute-operation", "INVALID_REQUEST", map[string]any{"action": map[string]any{
			"kind": "service", "operationId": "merchant.cart.add", "targetRef": textMark, "args": map[string]any{"productId": "fieldwork-keyboard", "quantity": numberMark},
		}}, false, func(body any, edits ...edit) answer {
			return c.ask("POST", "/operation", body, append(live.headers(), edits...)...)
		}, nil, 200},
		{"issue-session", "INVALID_REQUEST", map[string]any{}, true, func(body any, edits ...edit) answer {
			return h.owner("POST", "/runs/"+c.run+"/session", body, edits...)
		}, []byte("{}"), 200},
		{"revoke-run", "INVALID_REQUEST", map[string]any{}, true, func(body any, edits ...edit) answer {
			return h.owner("POST", "/runs/"+c.run+"/revoke", body, edits...)
		}, []byte("{}"), 200},
	}
	for _, b := range bodies {
		t.Run(b.name, func(t *testing.T) {
			if b.name == "execute-operation" { // its good body is the permit's action
				live = permitOf(c.ask("GET", "/decision", nil))
				b.good = mustJSON(live.body())
			}
			runs, events := h.runs(), h.total(c.run)
			unchanged := func(what string) {
				t.Helper()
				if n := h.total(c.run); n != events {
					t.Fatalf("%s: %d events, before %d", what, n, events)
				}
			}
			for _, bad := range badBodies(b.body) {
				a := b.send(bad.raw)
				a.is(t, bad.name, 400, b.reason)
				if a.text("detail") == "" || len(a.named()) == 0 {
					t.Errorf("%s: no detail or no place\n%s", bad.name, a.body)
				}
				if bad.name == "unknown member" && len(b.body) > 0 && fmt.Sprint(a.named()) != "[body.zzz]" {
					t.Errorf("%s: errors name %s", bad.name, a.named())
				}
				unchanged(bad.name)
			}
			if !b.optional {
				b.send([]byte{}).is(t, "empty", 400, b.reason)
			}
			for name, edits := range map[string]edit{
				"text": set("Content-Type", "text/plain"), "form": set("Content-Type", "application/x-www-form-urlencoded"),
				"Latin 1": set("Content-Type", "application/json; charset=iso-8859-1"), "compressed": set("Content-Encoding", "gzip"),
			} {
				b.send(b.good, edits).is(t, name, 415, edge.ContentTypeRejected)
			}
			b.send(padded(b.good, edge.MaxBody+1)).is(t, "over the bound", 413, edge.BodyTooLarge)
			unchanged("over the bound")
			if h.runs() != runs {
				t.Errorf("%d runs, before %d", h.runs(), runs)
			}
			// At the bound, and in another lawful spelling of the type.
			b.send(padded(b.good, edge.MaxBody), set("Content-Type", "application/json; charset=UTF-8")).is(t, "the next good request", b.status, "")
		})
	}
}

// padded is the body with blanks behind it, of exactly that many bytes.
func padded(body []byte, size int) []byte {
	return join(body, strings.Repeat(" ", size-len(body)))
}

// badReports break the shape of a report in one thing. What a schema cannot say
// is beyond it.
var badReports = []struct {
	name         string
	edit         func(r map[string]any)
	beyondSchema bool
}{
	{"B01 unknown root field", func(r map[string]any) { r["zzz"] = 1 }, false},
	{"A01 forged permit field", func(r map[string]any) { r["permit"] = map[string]any{} }, false},
	{"B02 goalRestatement missing", func(r map[string]any) { delete(r, "goalRestatement") }, false},
	{"B02 candidates missing", func(r map[string]any) { delete(r, "candidates") }, false},
	{"B02 selectedCandidateId missing", func(r map[string]any) { delete(r, "selectedCandidateId") }, false},
	{"B02 justification missing", func(r map[string]any) { delete(r, "justification") }, false},
	{"B02 expectedEffect missing", func(r map[string]any) { delete(r, "expectedEffect") }, false},
	{"B02 uncertainties missing", func(r map[string]any) { delete(r, "uncertainties") }, false},
	{"B05 no candidate", func(r map[string]any) { r["candidates"] = []any{} }, false},
	{"B05 thirteen candidates", func(r map[string]any) {
		one := r["candidates"].([]any)[0]
		r["candidates"] = []any{one, one, one, one, one, one, one, one, one, one, one, one, one}
	}, false},
	{"B06 amount as number", func(r map[string]any) { args(r)["amountCents"] = 13700 }, true},
	{"B06 decimal amount", func(r map[string]any) { args(r)["amountCents"] = "137.00" }, true},
	{"B06 negative amount", func(r map[string]any) { args(r)["amountCents"] = "-13700" }, true},
	{"B06 amount deep inside", func(r map[string]any) { args(r)["x"] = []any{map[string]any{"totalCents": 1}} }, true},
	{"candidate without rejectionReason", func(r map[string]any) { delete(candidate(r), "rejectionReason") }, false},
	{"candidate with an unknown member", func(r map[string]any) { candidate(r)["approved"] = true }, false},
	{"unknown disposition", func(r map[string]any) { candidate(r)["disposition"] = "approved" }, false},
	{"proposed with a rejection", func(r map[string]any) { candidate(r)["rejectionReason"] = "no" }, true},
	{"rejected without one", func(r map[string]any) { candidate(r)["disposition"] = "rejected" }, true},
	{"unknown kind", func(r map[string]any) { action(r)["kind"] = "hover" }, false},
	{"action with an unknown member", func(r map[string]any) { action(r)["selector"] = "#buy" }, false},
	{"url null", func(r map[string]any) { action(r)["url"] = nil }, false},
	{"value null", func(r map[string]any) { action(r)["value"] = nil }, false},
	{"args no object", func(r map[string]any) { action(r)["args"] = []any{} }, false},
	{"args missing", func(r map[string]any) { delete(action(r), "args") }, false},
	{"empty restatement", func(r map[string]any) { r["goalRestatement"] = "" }, false},
	{"long restatement", func(r map[string]any) { r["goalRestatement"] = strings.Repeat("ä", 2001) }, false},
	{"long candidate id", func(r map[string]any) { candidate(r)["id"] = strings.Repeat("x", 65) }, false},
	{"long target", func(r map[string]any) { action(r)["targetRef"] = strings.Repeat("x", 201) }, false},
	{"evidenceRefs no array", func(r map[string]any) { r["justification"].(map[string]any)["evidenceRefs"] = "x" }, false},
	{"33 evidenceRefs", func(r map[string]any) { r["justification"].(map[string]any)["evidenceRefs"] = make33() }, false},
	{"thirteen uncertainties", func(r map[string]any) { r["uncertainties"] = make33()[:13] }, false},
	{"disclosedFields null", func(r map[string]any) { r["expectedEffect"].(map[string]any)["disclosedFields"] = nil }, false},
	{"transactionProposalId empty", func(r map[string]any) { r["expectedEffect"].(map[string]any)["transactionProposalId"] = "" }, false},
}

func candidate(r map[string]any) map[string]any { return r["candidates"].([]any)[0].(map[string]any) }
func action(r map[string]any) map[string]any    { return candidate(r)["action"].(map[string]any) }
func args(r map[string]any) map[string]any      { return action(r)["args"].(map[string]any) }

func make33() []any {
	all := make([]any, 33)
	for i := range all {
		all[i] = "x"
	}
	return all
}

// H-051 H-158 H-161 H-170: a malformed report is 400 MALFORMED_PROPOSAL
// and stores nothing; the same report without the mistake gets its permit.
func TestMalformedReport(t *testing.T) {
	t.Parallel()
	c := newHouse(t, standing).agent("local")
	before := c.total(c.run)
	for _, bad := range badReports {
		report := c.report("merchant.catalog")
		bad.edit(report)
		a := c.ask("POST", "/turns", report)
		a.is(t, bad.name, 400, "MALFORMED_PROPOSAL")
		if len(a.named()) == 0 {
			t.Errorf("%s: no place\n%s", bad.name, a.body)
		}
		if n := c.total(c.run); n != before {
			t.Fatalf("%s: %d events, before %d", bad.name, n, before)
		}
	}
	c.cycle("merchant.catalog")
}

// A body that an agent's route refuses is answered in the form of every other
// route: each place once, the names of unknown members cut to a bound, and no
// value that was submitted.
func TestMalformedPlaces(t *testing.T) {
	t.Parallel()
	c := newHouse(t, standing).agent("local")
	const secret = "5ecret-marker"
	long := strings.Repeat("m", 5000)
	good := c.report("merchant.catalog")
	for _, bad := range []struct {
		name  string
		edit  func(r map[string]any)
		named string
	}{
		{"unknown", func(r map[string]any) { r["permit"] = secret }, "body.permit"},
		{"unknown and deep", func(r map[string]any) { action(r)["a/b~c"] = secret }, "body.candidates[0].action.a/b~c"},
		{"missing", func(r map[string]any) { delete(candidate(r), "purpose") }, "body.candidates[0].purpose"},
		{"another case", func(r map[string]any) {
			r["Uncertainties"] = r["uncertainties"]
			delete(r, "uncertainties")
		}, "body.Uncertainties body.uncertainties"},
		{"several", func(r map[string]any) {
			r["goalRestatement"], r["zzz"], action(r)["kind"], args(r)["amountCents"] = 1, secret, secret, secret
		}, "body.zzz body.goalRestatement body.candidates[0].action.kind body.candidates[0].action.args.amountCents"},
		{"long name", func(r map[string]any) { r[long] = secret }, "body." + long[:195] + "…"},
		{"many", func(r map[string]any) {
			for i := range 500 {
				r[fmt.Sprintf("x%03d", i)] = secret
			}
		}, ""},
	} {
		var report map[string]any
		must(t, json.Unmarshal(mustJSON(good), &report))
		bad.edit(report)
		a := c.ask("POST", "/turns", report)
		a.is(t, bad.name, 400, "MALFORMED_PROPOSAL")
		if got := a.named(); bad.named == "" && len(got) != 20 || bad.named != "" && strings.Join(got, " ") != bad.named {
			t.Errorf("%s: errors name %q, want %q", bad.name, got, bad.named)
		}
		if strings.Contains(string(a.body), secret) {
			t.Errorf("%s: the answer holds what was submitted\n%s", bad.name, a.body)
		}
	}
	key := set("X-Idempotency-Key", "key-for-a-malformed-body")
	for body, named := range map[string]string{
		`{}`:                                  "body.action",
		`{"action":{"zzz":"` + secret + `"}}`: "body.action.zzz body.action.kind body.action.operationId body.action.targetRef body.action.args",
		`{"action":"` + secret + `"}`:         "body.action",
		`[]`:                                  "body",
		`{"action":1,"action":2}`:             "body.action", // outside the grammar: found before
	} {
		a := c.ask("POST", "/operation", []byte(body), key)
		a.is(t, body, 400, "INVALID_REQUEST")
		if got := strings.Join(a.named(), " "); got != named || strings.Contains(string(a.body), secret) {
			t.Errorf("%s: errors name %q, want %q\n%s", body, got, named, a.body)
		}
	}
}
