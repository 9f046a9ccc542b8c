package redact_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"countersign/internal/contextturn/redact"

	"pgregory.net/rapid"
)

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
	url     = letters + digits + "-_"
)

// some returns n characters of the alphabet. Secrets are made when the test runs, so that
// none stands in the tree.
func some(n int, alphabet string) string {
	var b strings.Builder
	for range n {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			panic(err)
		}
		b.WriteByte(alphabet[i.Int64()])
	}
	return b.String()
}

// card is a number that passes Luhn: the check digit is the one of ten for which the
// digits, every second one from the right doubled and its digits added, sum to a multiple
// of ten.
func card(n int) string {
	for body, check := some(n-1, digits), 0; ; check++ {
		number := body + fmt.Sprint(check)
		sum := 0
		for i := range number {
			d := int(number[len(number)-1-i] - '0')
			if i%2 == 1 {
				d = d*2/10 + d*2%10
			}
			sum += d
		}
		if sum%10 == 0 {
			return number
		}
	}
}

func grouped(number, by string, sizes ...int) string {
	var parts []string
	for _, n := range sizes {
		parts, number = append(parts, number[:n]), number[n:]
	}
	return strings.Join(parts, by)
}

func jwt(parts int) string {
	list := []string{base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`))}
	for range parts - 1 {
		list = append(list, some(43, url))
	}
	return strings.Join(list, ".")
}

func block(label string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: []byte(some(150, url))}))
}

// secret is one that was made, and the part of it that nobody may read.
type secret struct{ kind, text, hidden string }

func keyed(prefix string, n int, alphabet string) secret {
	rest := some(n, alphabet)
	return secret{"key", prefix + rest, rest}
}

// secrets are one of every form.
func secrets() []secret {
	upper := letters[26:] + digits
	list := []secret{
		keyed("seif_", 43, url), keyed("cs_run_", 43, url),
		keyed("sk-", 48, letters+digits), keyed("sk-proj-", 120, url), keyed("sk-ant-api03-", 95, url), keyed("sk_live_", 24, letters), keyed("rk_test_", 24, letters), keyed("whsec_", 32, letters),
		keyed("ghp_", 36, letters+digits), keyed("gho_", 36, letters+digits), keyed("ghs_", 36, letters+digits), keyed("github_pat_", 82, letters+digits+"_"),
		keyed("glpat-", 20, url), keyed("xoxb-", 50, digits+"-"+letters), keyed("xoxp-", 50, digits+"-"+letters), keyed("xapp-", 50, digits+"-"+letters),
		keyed("AKIA", 16, upper), keyed("ASIA", 16, upper), keyed("AIza", 35, url), keyed("ya29.", 60, url+"."), keyed("npm_", 36, letters+digits), keyed("pypi-", 100, url),
		keyed("SG.", 66, url), keyed("hf_", 34, letters), keyed("hvs.", 90, url), keyed("AGE-SECRET-KEY-1", 58, upper),
	}
	for _, n := range []int{13, 15, 16, 19} {
		number := card(n)
		list = append(list, secret{"card", number, number})
	}
	for _, by := range []string{" ", "-", "\u00a0", " - ", "\u2013", "   "} {
		number := grouped(card(16), by, 4, 4, 4, 4)
		list = append(list, secret{"card", number, number})
	}
	number := grouped(card(15), " ", 4, 6, 5)
	list = append(list, secret{"card", number, number})
	for _, announced := range []string{"Bearer ", "bearer ", "BEARER\u00a0", "Bearer:  ", "bearer=", `Bearer "`, "Bearer <", "Bearer%20", "Bearer+"} {
		token := some(20, url+".~+/")
		list = append(list, secret{"bearer", announced + token, token})
	}
	for _, n := range []int{2, 3, 5} {
		token := jwt(n)
		list = append(list, secret{"jwt", token, token})
	}
	for _, label := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "CERTIFICATE"} {
		text := block(label)
		list = append(list, secret{"pem", text, text[30+len(label) : len(text)-30-len(label)]})
	}
	for _, domain := range []string{"example.com", "mail.example.co.uk", "b\u00fccher.example"} {
		name := some(12, letters+digits)
		list = append(list, secret{"email", name + ".x+y@" + domain, name})
	}
	return list
}

// G-34: every form of secret leaves nothing but the marker of its kind, alone and in a
// sentence.
func TestSecrets(t *testing.T) {
	for _, s := range secrets() {
		marker := "[redacted:" + s.kind + "]"
		for _, c := range [][2]string{
			{s.text, marker}, {"It was " + s.text + ", they say.", "It was " + marker + ", they say."}, {"(" + s.text + ")", "(" + marker + ")"},
			{s.text + " and " + s.text, marker + " and " + marker},
		} {
			want := c[1]
			if strings.HasSuffix(s.text, "\n") { // a line end does not show
				want = strings.ReplaceAll(want, " \n", " ")
			}
			if got := redact.Text(c[0], 1000); got != want {
				t.Errorf("%s %q becomes %q, want %q", s.kind, c[0], got, want)
			}
		}
	}
}

// A key stays one when a word stands right before it, whatever the word.
func TestGlued(t *testing.T) {
	for _, s := range []secret{
		keyed("seif_", 43, url), keyed("cs_run_", 43, url), keyed("sk-proj-", 120, url), keyed("ghp_", 36, letters+digits), keyed("glpat-", 20, url),
		keyed("AKIA", 16, letters[26:]), keyed("SG.", 66, url), keyed("hf_", 34, letters), keyed("xai-", 80, letters),
	} {
		for _, before := range []string{"token_", "x", "7", "\u00fc"} {
			if got, want := redact.Text(before+s.text, 1000), before+"[redacted:key]"; got != want {
				t.Errorf("%s%s… becomes %q, want %q", before, s.text[:4], got, want)
			}
		}
	}
	// What is dropped between the two takes them apart.
	short := keyed("sk-", 20, letters)
	if got := redact.Text("task"+short.text[1:], 1000); got != "task"+short.text[1:] {
		t.Errorf("control: a hyphenated word becomes %q", got)
	}
	if got := redact.Text("x\n"+short.text, 1000); got != "x[redacted:key]" {
		t.Errorf("a key behind a line end becomes %q", got)
	}
}

// A token has five parts at most; a sixth is not one of it.
func TestParts(t *testing.T) {
	token := jwt(6)
	if got, want := redact.Text(token, 1000), "[redacted:jwt]"+token[strings.LastIndexByte(token, '.'):]; got != want {
		t.Errorf("%q becomes %q, want %q", token, got, want)
	}
}

// What is no secret stays as it is.
func TestHarmless(t *testing.T) {
	number := card(16)
	broken := number[:15] + string('0'+(number[15]-'0'+1)%10)
	for _, s := range []string{
		"", "completed after 3 attempts", "mcp__seif__context_compass timed out", "task-management-system-for-support", "the seif_ prefix, sk- and AKIA", "bearers of news, forbearance", "the bearer: ", "a bearer",
		"019cb73d-3271-7001-a97a-e979a578a81b", "order 4711, 2026-03-04 05:06", broken, number + "1234", "5" + number, grouped(number, "    ", 4, 4, 4, 4), "12345678901", number[:12], "a @ b.c", "@everyone", "see @example.com", "a@.com", "user@host", "user@host.x", "a@-.com"[:3],
		"eyJ.", "eyJab. x", "eyJhbGciOiJub25lIn0", "-----END X-----", "----BEGIN", "\u00e4\u00f6\u00fc \u65e5\u672c\u8a9e \U0001f600",
	} {
		if got := redact.Text(s, 1000); got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}

// Characters that do not show are dropped, and what follows them begins anew: neither do
// they split a secret nor hide where it begins.
func TestHidden(t *testing.T) {
	for _, c := range []string{"\x00", "\n", "\x7f", "\u0085", "\u200b", "\u202e", "\u2028", "\ufeff", "\u00ad", "\ufe0f", "\u3164", "\U000e0041", "\xff", "\xe2\x82"} {
		if got := redact.Text("a"+c+"b", 10); got != "ab" {
			t.Errorf("%q is kept: %q", c, got)
		}
		for _, s := range secrets() {
			if got, want := redact.Text("x "+strings.Join(strings.Split(s.text, ""), c)+c+" y", 1000), "x [redacted:"+s.kind+"] y"; got != want {
				t.Errorf("%s with %q between its characters becomes %q, want %q", s.kind, c, got, want)
			}
		}
	}
	token := some(20, url)
	if got := redact.Text("Bearer\n"+token, 100); got != "[redacted:bearer]" {
		t.Errorf("a bearer announced on the line before becomes %q", got)
	}
	first, second := card(16), card(16)
	if got := redact.Text(first+"\n"+second, 100); got != "[redacted:card][redacted:card]" {
		t.Errorf("two cards on two lines become %q", got)
	}
}

// Where secrets overlap nothing of either shows.
func TestOverlap(t *testing.T) {
	key, number, name := some(43, url), card(16), some(9, letters)
	for text, want := range map[string]string{
		"Bearer seif_" + key:               "[redacted:bearer]",
		"Bearer " + jwt(3) + ";":           "[redacted:bearer];",
		"seif_" + key + "@example.com":     "[redacted:key]",
		name + "@example.comseif_" + key:   "[redacted:email]",
		number + "@example.com":            "[redacted:card]",
		"-----BEGIN X-----\nBearer " + key: "[redacted:pem]",
		// The dashes of the second block end the first.
		"-----BEGIN A-----\nx\n-----END A" + block("PRIVATE KEY"): "[redacted:pem]",
		number + " " + number:  "[redacted:card] [redacted:card]",
		"Bearer Bearer " + key: "[redacted:bearer]",
	} {
		got := redact.Text(text, 1000)
		for _, s := range []string{key, number, name} {
			if strings.Contains(got, s[len(s)-6:]) {
				t.Errorf("%q shows in %q", s, got)
			}
		}
		if got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// The text is cut after what was taken out, counts characters, and is never cut inside a
// marker.
func TestLimit(t *testing.T) {
	text := "\u00e4b " + some(12, letters) + "@example.com z"
	for limit, want := range map[int]string{
		-1: "", 0: "", 1: "\u00e4", 2: "\u00e4b", 3: "\u00e4b ", 4: "\u00e4b ", 18: "\u00e4b ", 19: "\u00e4b [redacted:email]", 20: "\u00e4b [redacted:email] ", 21: "\u00e4b [redacted:email] z", 22: "\u00e4b [redacted:email] z",
	} {
		if got := redact.Text(text, limit); got != want {
			t.Errorf("cut at %d: %q, want %q", limit, got, want)
		}
	}
}

// Beginnings without an end are read once, not once for each: the time per byte stays.
func BenchmarkText(b *testing.B) {
	for _, piece := range []string{
		"sk-", "eyJa.", "bearer ", "4 ", "a@", "-----BEGIN-----END", "\x00", "a", "seif_ ", "SK-a1b2c3 ", "eyJa1b2c3 ", "bearer_token is ", "bearer_", "\"@", "\"a\"@[", "a%40[1", "---- BEGIN", "\U0001d7ff", "4._",
	} {
		for _, size := range []int{1 << 12, 1 << 18} {
			b.Run(fmt.Sprintf("%q/%d", piece, size), func(b *testing.B) {
				text := strings.Repeat(piece, size/len(piece))
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					redact.Text(text, size)
				}
			})
		}
	}
}

// planted is a text around a secret, whose characters may have others between them that
// do not show.
func planted(before, after string, s secret, between map[int]string) string {
	var b strings.Builder
	b.WriteString(before + " ")
	n := 0
	for _, r := range s.text {
		b.WriteString(between[n])
		b.WriteRune(r)
		n++
	}
	return b.String() + " " + after
}

// holds is what is true of every text with a secret in it, wherever it is cut.
func holds(t interface{ Errorf(string, ...any) }, text string, s secret, limit int) {
	const piece = 10 // a shorter one may stand in the rest by chance
	got := redact.Text(text, limit)
	for i := 0; i+piece <= len(s.hidden); i++ {
		if strings.Contains(got, s.hidden[i:i+piece]) {
			t.Errorf("%s: a piece of the secret shows in %q", s.kind, got)
			break
		}
	}
	if n := utf8.RuneCountInString(got); n > max(limit, 0) {
		t.Errorf("%d characters, want at most %d", n, limit)
	}
	if whole := redact.Text(text, len(text)+1000); !strings.HasPrefix(whole, got) || !utf8.ValidString(whole) || strings.ContainsFunc(whole, unicode.IsControl) {
		t.Errorf("cut at %d to %q, the whole is %q", limit, got, whole)
	}
}

func TestPlanted(t *testing.T) {
	all := secrets()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(all).Draw(t, "secret")
		around := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"-----BEGIN A-----x-----END", "Bearer", "4111 1111", "eyJa.b", "sk-", "x@y.z", "a\n"}))
		between := rapid.MapOf(rapid.IntRange(0, 60), rapid.SampledFrom([]string{"\x00", "\r\n", "\u200b", "\xff"})).Draw(t, "between")
		text := planted(around.Draw(t, "before"), around.Draw(t, "after"), s, between)
		holds(t, text, s, rapid.IntRange(-1, 200).Draw(t, "limit"))
	})
}

func FuzzText(f *testing.F) {
	all := secrets()
	for i := range all {
		f.Add("-----BEGIN A-----x-----END", "@y.zz 4111", uint(i), 128, []byte{3, 0, 9, 1})
	}
	hidden := []string{"\x00", "\n", "\u200b", "\u202e", "\xff"}
	f.Fuzz(func(t *testing.T, before, after string, which uint, limit int, split []byte) {
		between := map[int]string{}
		for i := 0; i+1 < len(split); i += 2 {
			between[int(split[i])] = hidden[int(split[i+1])%len(hidden)]
		}
		s := all[which%uint(len(all))]
		holds(t, planted(before, after, s, between), s, limit)
	})
}
