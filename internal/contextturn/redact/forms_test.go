package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode"

	"countersign/internal/contextturn/redact"
)

// full writes ASCII in fullwidth forms (Unicode block FF00).
func full(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r - '!' + 0xff01
		}
		return r
	}, s)
}

// digitsOf writes digits in those of the script that begins with zero.
func digitsOf(zero rune, number string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r - '0' + zero
		}
		return r
	}, number)
}

// G-34: other spellings of the same secrets leave nothing but the marker of their kind.
func TestForms(t *testing.T) {
	key, number, name := some(43, url), card(16), some(12, letters)
	groups := func(by string) string { return grouped(number, by, 4, 4, 4, 4) }
	header := func(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) + "." + key }
	for text, kind := range map[string]string{
		"bearer token: " + key:        "bearer",
		"Bearer token=" + key:         "bearer",
		"bearer token = " + key:       "bearer",
		"Bearer TOKEN " + key:         "bearer",
		"bearerToken: " + key:         "bearer",
		"bearer_token=" + key:         "bearer",
		"bearer-token " + key:         "bearer",
		"bearer access token: " + key: "bearer",
		"the bearer is: " + key:       "the [redacted:bearer]",
		`{"bearer": "` + key + `"}`:   `{"[redacted:bearer]"}`,

		groups("."): "card", groups("/"): "card", groups("_"): "card", groups(" / "): "card", groups("\u3000"): "card",
		full(number): "card", full(groups("-")): "card",
		digitsOf(0x0660, number): "card", digitsOf(0x06f0, number): "card", digitsOf(0x0966, groups(" ")): "card", digitsOf(0x1d7ce, number): "card", digitsOf(0x1d7d8, number): "card", digitsOf(0x1d7f6, number): "card",

		name + "\uff20example.com":               "email",
		name + "\ufe6bexample.com":               "email",
		full(name + "@example.com"):              "email",
		name + "%40example.com":                  "email",
		name + "%40example.com, x@example.com":   "[redacted:email], [redacted:email]",
		`"` + name + ` x"@example.com`:           "email",
		`"` + name + ` \"x"@example.com`:         "email",
		`"a" or "` + name + ` x"@example.com`:    `"a" or [redacted:email]`,
		name + "@[192.0.2.1]":                    "email",
		name + "@[IPv6:2001:db8::1]":             "email",
		`"` + name + ` x"%40[192.0.2.1], "` + "": `[redacted:email], "`,

		full("seif_" + key):                     "key",
		"SEIF_" + key:                           "key",
		"Seif_" + key:                           "key",
		"token_SEIF_" + key:                     "token_[redacted:key]",
		"CS_RUN_" + key:                         "key",
		"GHP_" + key:                            "key",
		"SK-ANT-" + key:                         "key",
		"akia" + some(16, digits):               "key",
		"seif_Ab3dEf Gh1jKlm Nopq5rs":           "key",
		"seif_Ab3dEf\u00a0Gh1jKlm\u00a0NopqQrs": "key",
		"seif_ Ab3dEfGh1jKlmNopq5rs":            "key",
		"seif_Ab3dEfGh1jKlmNop\n q5rstUv":       "key",
		"sk-Ab3dEfGh1jKlmNop q5rstU":            "key",
		"seif_Ab3dEfGh1jKlmNop and q5rstU":      "[redacted:key] and q5rstU",
		"seif_Ab3dEfGh1jKlmNop  q5rstU":         "[redacted:key]  q5rstU",
		"seif_Ab3dEfGh1jKlmNop q5rst":           "[redacted:key] q5rst",
		"seif_Ab3dEfGh1jKlmNop 123456":          "[redacted:key] 123456",
		"seif_Ab3dEfGh1jKlmNop refund":          "[redacted:key] refund",
		"seif_Ab3dEfGh1jKlmNop REFUND":          "[redacted:key] REFUND",
		"seif_Ab3dEfGh1jKlmNop Refund":          "[redacted:key] Refund",
		"seif_Ab3dEfGh1jKlmNop reFund":          "key",
		"seif_Ab3dEfGh1jKlmNop z12345":          "key",
		"seif_Ab3dEfGh1jKlmNop Z12345":          "key",
		"seif_Ab3dEfGh1jKlmNop A12345":          "key",
		"seif_Ab3dEfGh1jKlmNop a00000":          "key",
		"seif_Ab3dEfGh1jKlmNop a99999":          "key",
		"seif_Ab3dEfGh1jKlmNop aAaaaa":          "key",
		"seif_Ab3dEfGh1jKlmNop zZaaaa":          "key",
		"seif_Ab3dEfGh1jKlmNop ______":          "[redacted:key] ______",

		header("{\n  \"alg\": \"ES256\"\n}"):     "jwt",
		header("{\n\t\"alg\": \"ES256\"\n}"):     "jwt",
		header("{\r\n  \"alg\": \"ES256\"\r\n}"): "jwt",
		header("{ \"alg\": \"ES256\" }"):         "jwt",
		header("{\n\"alg\": \"ES256\"}"):         "jwt",
		"eyJhbGciOiJ FUzI1NiJ9.Ab3dEf Gh1jKl":    "jwt",

		"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: x\n" + key + "\n---- END SSH2 ENCRYPTED PRIVATE KEY ----": "pem",
		"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + key:                                                            "pem",
		"---- BEGIN A ----" + key + "---- END A ---- and ---- BEGIN A ----" + key + "---- END A ----.":                  "[redacted:pem] and [redacted:pem].",
	} {
		want := kind
		if !strings.Contains(kind, " ") && !strings.Contains(kind, "[") {
			want = "[redacted:" + kind + "]"
		}
		if got := redact.Text(text, 1000); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if !redact.Finds(text) {
			t.Errorf("nothing is found in %q", text)
		}
	}
}

// What looks like those spellings and is no secret stays, but for its fullwidth forms.
func TestHarmlessForms(t *testing.T) {
	number := card(16)
	for text, want := range map[string]string{
		"a bearer token": "", "bearer token:": "", "the bearer is": "", "the bearer-tokens": "",
		"SEIF_BASE_URL, SEIF_TURN_TIMEOUT_SECONDS and NPM_CONFIG_PREFIX": "",
		"/projects/ewok.first, ewoks.more":                               "",
		"4111.1111 of 2026/03/04":                                        "", grouped(number, "....", 4, 4, 4, 4): "", grouped(number, "\\", 4, 4, 4, 4): "", grouped(number, ",", 4, 4, 4, 4): "",
		"40%40": "", "a%40": "", "%40example.com": "", `"a" @example.com`: "", `a"@example.com`: "", `"a" b"`: "", "x@[]": "", "x@[a b]": "", "x@[192.0.2.1": "", "@[192.0.2.1]": "",
		"----BEGIN SSH2": "", "--- BEGIN SSH2": "",
		"\uff28\uff49\uff01\uff5e": "Hi!~", "\uff00\uff5f": "", "\ufe6a": "", "\ufe6b": "@",
		"\u0661\u0662": "", digitsOf(0x2080, number): "",
		"sk-learn GitHub and PostgreSQL": "",
	} {
		if want == "" {
			want = text
		}
		if got := redact.Text(text, 1000); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if redact.Finds(text) {
			t.Errorf("something is found in %q", text)
		}
	}
}

// Every decimal digit that Unicode knows counts what its place among those of its script
// says: a card in any of them is found, and one with a wrong check digit is not.
func TestDigitsOfAllScripts(t *testing.T) {
	number := card(16)
	broken := number[:15] + string('0'+(number[15]-'0'+1)%10)
	scripts := 0
	for _, zeros := range unicode.Nd.R16 {
		for zero := rune(zeros.Lo); zero < rune(zeros.Hi); zero += 10 {
			scripts++
			if !redact.Finds(digitsOf(zero, number)) || redact.Finds(digitsOf(zero, broken)) {
				t.Errorf("digits from %U on", zero)
			}
		}
	}
	if scripts < 30 {
		t.Errorf("%d scripts", scripts)
	}
}
