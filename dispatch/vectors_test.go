package dispatch

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/canon"
)

var updateVectors = flag.Bool("update", false, "write ../vectors/dispatch anew, with fresh keys")

// permitCase is one line of vectors/dispatch/permits.json: a request with the
// tokens of its permit header, and "valid" or the reason that is expected.
type permitCase struct {
	Name   string   `json:"name"`
	Tokens []string `json:"tokens"`
	Origin string   `json:"origin"`
	Method string   `json:"method"`
	Target string   `json:"target"` // path and query as sent
	Body   string   `json:"body"`
	Now    string   `json:"now"`
	Expect string   `json:"expect"`
}

// receiptCase is one line of vectors/dispatch/receipts.json: a receipt and the
// permit it should answer. Expect is "valid", or "untrusted" when the token is not
// to be believed, or "other:MEMBER" when it is about something else.
type receiptCase struct {
	Name    string `json:"name"`
	Receipt string `json:"receipt"`
	Permit  Permit `json:"permit"`
	Expect  string `json:"expect"`
}

type vectorFile[C any] struct {
	Format string   `json:"format"`
	Keys   []string `json:"keys"` // lines of the *.pub file to trust
	Cases  []C      `json:"cases"`
}

func readVectors[C any](t *testing.T, name, format string) ([]TrustedKey, []C) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "vectors", "dispatch", name))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var f vectorFile[C]
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	if f.Format != format {
		t.Fatalf("%s: format %q", name, f.Format)
	}
	keys, err := ParseKeys([]byte(strings.Join(f.Keys, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return keys, f.Cases
}

func TestPermitVectors(t *testing.T) {
	if *updateVectors {
		writeVectors(t)
	}
	keys, cases := readVectors[permitCase](t, "permits.json", "countersign-vectors/dispatch-permit/1")
	reasons := map[string]int{}
	for _, c := range cases {
		reasons[c.Expect]++
		now, err := time.Parse(time.RFC3339Nano, c.Now)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(c.Method, c.Origin+c.Target, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range c.Tokens {
			r.Header.Add(PermitHeader, token)
		}
		v := &Verifier{Origin: c.Origin, Keys: keys, Now: fixed(now)}
		_, err = v.Verify(r, []byte(c.Body))
		got := string(reasonOf(t, err))
		if err == nil {
			got = "valid"
		}
		if got != c.Expect {
			t.Errorf("%s: %s, want %s", c.Name, got, c.Expect)
		}
	}
	for _, r := range []Reason{"valid", Missing, Malformed, UnknownKey, BadSignature, KeyExpired, WrongAudience, WrongLifetime, NotYetValid, Expired, WrongMethod, WrongTarget, WrongBody} {
		if reasons[string(r)] == 0 {
			t.Errorf("no case expects %q", r)
		}
	}
}

func TestReceiptVectors(t *testing.T) {
	keys, cases := readVectors[receiptCase](t, "receipts.json", "countersign-vectors/dispatch-receipt/1")
	if len(cases) < 30 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		got := "valid"
		r, err := ParseReceipt(c.Receipt, keys)
		if err != nil {
			got = "untrusted"
		} else if err := r.Answers(c.Permit); err != nil {
			got = "other:" + err.Error()[strings.LastIndex(err.Error(), " ")+1:]
		}
		if got != c.Expect {
			t.Errorf("%s: %s, want %s (%v)", c.Name, got, c.Expect, err)
		}
	}
}

// writeVectors makes every case by hand from a valid one. The private keys are
// forgotten afterwards.
func writeVectors(t *testing.T) {
	key, trusted := newKey(t)
	retired, retiredTrusted := newKey(t)
	stranger, _ := newKey(t)
	retiredTrusted[0].NotAfter = issued.Add(-time.Second)
	keys := strings.Split(strings.TrimSuffix(string(FormatKeys(append(retiredTrusted, trusted...))), "\n"), "\n")

	var permits []permitCase
	addTokens := func(name, expect string, change func(*permitCase), tokens ...string) {
		c := permitCase{name, tokens, shopOrigin, "POST", "/api/orders", string(orderBody), "2026-11-30T12:00:00Z", expect}
		if c.Tokens == nil {
			c.Tokens = []string{}
		}
		if change != nil {
			change(&c)
		}
		permits = append(permits, c)
	}
	add := func(name string, expect Reason, changePermit func(*Permit), change func(*permitCase)) {
		p := validPermit()
		if changePermit != nil {
			changePermit(&p)
		}
		addTokens(name, string(expect), change, sealPermit(key, p))
	}
	at := func(s string) func(*permitCase) { return func(c *permitCase) { c.Now = s } }
	add("valid", "valid", nil, nil)
	add("iat ahead by 5 s", "valid", nil, at("2026-11-30T11:59:55Z"))
	add("iat ahead by 5.001 s", NotYetValid, nil, at("2026-11-30T11:59:54.999Z"))
	add("1 ms before exp", "valid", nil, at("2026-11-30T12:00:29.999Z"))
	add("at exp", Expired, nil, at("2026-11-30T12:00:30Z"))
	add("1 ms after exp", Expired, nil, at("2026-11-30T12:00:30.001Z"))
	add("lifetime 29 s", "valid", func(p *Permit) { p.ExpiresAt-- }, nil)
	add("lifetime 31 s", WrongLifetime, func(p *Permit) { p.ExpiresAt++ }, nil)
	add("exp before iat", WrongLifetime, func(p *Permit) { p.ExpiresAt = p.IssuedAt - 1 }, at("2026-11-30T11:59:58Z"))
	add("another shop", WrongAudience, func(p *Permit) { p.Audience = "http://127.0.0.1:8422" }, nil)
	add("audience with a slash", WrongAudience, func(p *Permit) { p.Audience += "/" }, nil)
	add("audience by another name", WrongAudience, func(p *Permit) { p.Audience = "http://localhost:8421" }, nil)
	add("another method", WrongMethod, func(p *Permit) { p.Method = "PUT" }, nil)
	add("method in lower case", WrongMethod, func(p *Permit) { p.Method = "post" }, nil)
	add("another path", WrongTarget, func(p *Permit) { p.Target = shopOrigin + "/api/checkouts" }, nil)
	add("a path below", WrongTarget, func(p *Permit) { p.Target += "/1" }, nil)
	add("a query in the request", WrongTarget, nil, func(c *permitCase) { c.Target += "?a=1" })
	add("a query in both", WrongTarget, func(p *Permit) { p.Target += "?a=1" }, func(c *permitCase) { c.Target += "?a=1" })
	add("a target at another origin", WrongTarget, func(p *Permit) { p.Target = "http://127.0.0.1:8422/api/orders" }, nil)
	add("another body", WrongBody, nil, func(c *permitCase) { c.Body = strings.Replace(c.Body, "13700", "13701", 1) })
	add("a body with a space more", WrongBody, nil, func(c *permitCase) { c.Body += " " })
	add("an empty body", WrongBody, nil, func(c *permitCase) { c.Body = "" })
	add("empty jti", Malformed, func(p *Permit) { p.ID = "" }, nil)
	add("empty sid", Malformed, func(p *Permit) { p.Session = "" }, nil)
	add("empty pid", Malformed, func(p *Permit) { p.StepPermit = "" }, nil)
	add("bh in hex", Malformed, func(p *Permit) { p.BodyHash = canon.Hash(orderBody) }, nil)
	add("ed in upper case", Malformed, func(p *Permit) { p.EffectDigest = strings.ToUpper(p.EffectDigest) }, nil)

	valid := sealPermit(key, validPermit())
	addTokens("no permit", string(Missing), nil)
	addTokens("the same permit twice", string(Malformed), nil, valid, valid)
	addTokens("signed with a key that is not trusted", string(UnknownKey), nil, sealPermit(stranger, validPermit()))
	addTokens("signed with a retired key", string(KeyExpired), nil, sealPermit(retired, validPermit()))
	payload := canon.MustMarshal(validPermit())
	kid := trusted[0].ID()
	damaged := damagedTokens(key, permitType, kid, payload)
	for _, name := range slices.Sorted(maps.Keys(damaged)) {
		addTokens(name, string(Malformed), nil, damaged[name])
	}
	parts := strings.Split(valid, ".")
	p := validPermit()
	p.ExpiresAt--
	addTokens("another payload under the signature", string(BadSignature), nil, parts[0]+"."+canon.EncodeBase64(canon.MustMarshal(p))+"."+parts[2])
	other := strings.Split(sealPermit(key, p), ".")
	addTokens("another token's signature", string(BadSignature), nil, parts[0]+"."+parts[1]+"."+other[2])
	addTokens("a signature of zeros", string(BadSignature), nil, parts[0]+"."+parts[1]+"."+canon.EncodeBase64(make([]byte, 64)))
	foreign := strings.Split(sealPermit(stranger, validPermit()), ".")
	addTokens("a stranger's signature under a trusted kid", string(BadSignature), nil, parts[0]+"."+foreign[1]+"."+foreign[2])
	addTokens("a receipt in place of the permit", string(Malformed), nil, seal(receiptType, key, canon.MustMarshal(validReceipt())))

	var receipts []receiptCase
	addReceipt := func(name, expect, token string) {
		receipts = append(receipts, receiptCase{name, token, validPermit(), expect})
	}
	addR := func(name, expect string, change func(*Receipt)) {
		r := validReceipt()
		change(&r)
		addReceipt(name, expect, seal(receiptType, key, canon.MustMarshal(r)))
	}
	bare := func(r *Receipt) { r.OrderID, r.AmountCents = nil, nil }
	closed := func(r *Receipt) {
		bare(r)
		r.Result, r.Operation, r.BodyHash = Closed, "POST /api/dispatches/close", HashBody([]byte(`{"jti":"exec-1"}`))
	}
	addR("applied", "valid", func(*Receipt) {})
	addR("applied without an order", "valid", bare)
	addR("refused", "valid", func(r *Receipt) { bare(r); r.Result = Refused })
	addR("closed", "valid", closed)
	addR("closed with the original's body", "other:bh", func(r *Receipt) { closed(r); r.BodyHash = validPermit().BodyHash })
	addR("closed with the original's operation", "other:operation", func(r *Receipt) { closed(r); r.Operation = "POST /api/orders" })
	addR("another shop", "other:iss", func(r *Receipt) { r.Issuer = "http://127.0.0.1:8422" })
	addR("another control plane", "other:aud", func(r *Receipt) { r.Audience = "http://localhost:8422" })
	addR("another execution", "other:jti", func(r *Receipt) { r.ID = "exec-2" })
	addR("another step permit", "other:pid", func(r *Receipt) { r.StepPermit = "step-2" })
	addR("another session", "other:sid", func(r *Receipt) { r.Session = "sess-2" })
	addR("another effect", "other:ed", func(r *Receipt) { r.EffectDigest = canon.Hash([]byte("other")) })
	addR("another body", "other:bh", func(r *Receipt) { r.BodyHash = HashBody([]byte("other")) })
	addR("another operation", "other:operation", func(r *Receipt) { r.Operation = "POST /api/checkouts" })
	addR("unknown result", "untrusted", func(r *Receipt) { r.Result = "beyond_retention" })
	addR("refused with an order", "untrusted", func(r *Receipt) { r.Result, r.AmountCents = Refused, nil })
	addR("closed with a charge", "untrusted", func(r *Receipt) { r.Result, r.OrderID = Closed, nil })
	addR("amount with a leading zero", "untrusted", func(r *Receipt) { s := "013700"; r.AmountCents = &s })
	addR("amount with a fraction", "untrusted", func(r *Receipt) { s := "137.00"; r.AmountCents = &s })
	addReceipt("signed with a key that is not trusted", "untrusted", seal(receiptType, stranger, canon.MustMarshal(validReceipt())))
	addReceipt("signed with a retired key", "untrusted", seal(receiptType, retired, canon.MustMarshal(validReceipt())))
	early := validReceipt()
	early.IssuedAt -= 1
	addReceipt("signed at the last second of a retired key", "valid", seal(receiptType, retired, canon.MustMarshal(early)))
	addReceipt("the permit in place of the receipt", "untrusted", valid)
	damaged = damagedTokens(key, receiptType, kid, canon.MustMarshal(validReceipt()))
	for _, name := range slices.Sorted(maps.Keys(damaged)) {
		addReceipt(name, "untrusted", damaged[name])
	}

	writeJSON(t, "permits.json", vectorFile[permitCase]{"countersign-vectors/dispatch-permit/1", keys, permits})
	writeJSON(t, "receipts.json", vectorFile[receiptCase]{"countersign-vectors/dispatch-receipt/1", keys, receipts})
}

// damagedTokens are tokens that are signed, but not of the one accepted form.
func damagedTokens(key ed25519.PrivateKey, typ, kid string, payload []byte) map[string]string {
	sealRaw := func(header string, payload []byte) string {
		input := canon.EncodeBase64([]byte(header)) + "." + canon.EncodeBase64(payload)
		return input + "." + canon.EncodeBase64(ed25519.Sign(key, []byte(input)))
	}
	good := `{"alg":"EdDSA","kid":"` + kid + `","typ":"` + typ + `"}`
	valid := sealRaw(good, payload)
	parts := strings.Split(valid, ".")
	text := string(payload)
	header := func(old, new string) string { return sealRaw(strings.Replace(good, old, new, 1), payload) }
	claims := func(old, new string) string { return sealRaw(good, []byte(strings.Replace(text, old, new, 1))) }
	damaged := map[string]string{
		"alg none":                         header("EdDSA", "none"),
		"alg none without a signature":     strings.Join(strings.Split(header("EdDSA", "none"), ".")[:2], ".") + ".",
		"alg HS256":                        header("EdDSA", "HS256"),
		"alg Ed25519":                      header("EdDSA", "Ed25519"),
		"alg in another case":              header("EdDSA", "eddsa"),
		"another typ":                      header(typ, "JWT"),
		"no typ":                           header(`,"typ":"`+typ+`"`, ""),
		"no kid":                           header(`"kid":"`+kid+`",`, ""),
		"a jwk in the header":              header(`"kid"`, `"jwk":{},"kid"`),
		"a crit in the header":             header(`"kid"`, `"crit":["exp"],"kid"`),
		"header in another order":          sealRaw(`{"typ":"`+typ+`","alg":"EdDSA","kid":"`+kid+`"}`, payload),
		"header with a space":              header(":", ": "),
		"header with alg twice":            header(`{`, `{"alg":"none",`),
		"payload with an unknown member":   claims(`}`, `,"zz":1}`),
		"payload without jti":              claims(`"jti":"exec-1",`, ``),
		"payload with jti null":            claims(`"jti":"exec-1"`, `"jti":null`),
		"payload with jti twice":           claims(`"jti"`, `"jti":"exec-0","jti"`),
		"payload with jti in another case": claims(`"jti"`, `"JTI"`),
		"payload in another order":         sealRaw(good, []byte(`{"jti":"exec-1",`+strings.Replace(text, `"jti":"exec-1",`, "", 1)[1:])),
		"payload with a space":             claims(`:`, `: `),
		"payload with an escape":           claims(`exec-1`, `exec-\u0031`),
		"iat as a string":                  claims(`"iat":1796040000`, `"iat":"1796040000"`),
		"iat with a fraction":              claims(`"iat":1796040000`, `"iat":1796040000.5`),
		"iat with an exponent":             claims(`"iat":1796040000`, `"iat":179604e4`),
		"payload with a line end":          sealRaw(good, append([]byte(text), '\n')),
		"payload that is no object":        sealRaw(good, []byte(`null`)),
		"base64 with padding":              valid + "==",
		"base64 with a line end":           parts[0] + "\n." + parts[1] + "." + parts[2],
		"base64 with set trailing bits":    valid[:len(valid)-1] + trailingBits(valid[len(valid)-1]),
		"standard base64 alphabet":         parts[0] + "." + parts[1] + "." + "+/" + parts[2][2:],
		"two parts":                        parts[0] + "." + parts[1],
		"four parts":                       valid + "." + parts[2],
		"a short signature":                parts[0] + "." + parts[1] + "." + canon.EncodeBase64(make([]byte, 63)),
		"empty":                            "",
		"JSON serialization":               `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
	}
	for name, token := range damaged {
		if token == valid {
			panic(name + ": not damaged")
		}
	}
	return damaged
}

// trailingBits returns the next character, which decodes to the same bytes in a
// lenient reader: 64 bytes leave four unused bits in the last one.
func trailingBits(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)+1])
}

func writeJSON(t *testing.T, name string, v any) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "vectors", "dispatch")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
