package redact

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sets of characters that secrets are made of.
const (
	upper   = iota // A-Z and digits
	word           // letters, digits, hyphen and underscore: base64url
	dotted         // word and dot
	token68        // what follows Bearer (RFC 6750): word and ._~+/=
	local          // what stands before the @ of an address
	domain         // what stands behind it
	literal        // a network address in brackets
	sets
)

// members says of each byte which sets it is in. Bytes of other scripts than ASCII are in
// those of an address alone.
var members = func() (table [256]uint8) {
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	for set, characters := range [sets]string{
		upper:   letters[26:] + digits,
		word:    letters + digits + "-_",
		dotted:  letters + digits + "-_.",
		token68: letters + digits + "-_.~+/=",
		local:   letters + digits + ".!#$%&'*+/=?^_`{|}~-",
		domain:  letters + digits + ".-",
		literal: letters + digits + ".-:",
	} {
		for _, c := range []byte(characters) {
			table[c] |= 1 << set
		}
	}
	for c := utf8.RuneSelf; c < len(table); c++ {
		table[c] |= 1<<local | 1<<domain
	}
	return table
}()

// key is how a kind of key begins, in its own case or another. least is the shortest rest that counts when the key
// stands by itself, glued the shortest when a letter, digit or underscore stands before it, as the
// sk- of task-list begins no key, and when the case is another, as in the name of a variable.
type key struct {
	prefix       string
	set          int
	least, glued int
}

// keys lists ours and those that others publish so that they can be found.
var keys = []key{
	{"seif_", word, 16, 32}, {"cs_run_", word, 16, 32}, // context client and run of countersign
	{"sk-", word, 16, 40}, {"sk_live_", word, 10, 10}, {"sk_test_", word, 10, 10}, // OpenAI, Anthropic and others; Stripe
	{"rk_live_", word, 10, 10}, {"rk_test_", word, 10, 10}, {"whsec_", word, 16, 16},
	{"ghp_", word, 16, 30}, {"gho_", word, 16, 30}, {"ghu_", word, 16, 30}, {"ghs_", word, 16, 30}, {"ghr_", word, 16, 30}, {"github_pat_", word, 16, 16},
	{"glpat-", dotted, 16, 16}, {"gldt-", dotted, 16, 16}, {"glrt-", dotted, 16, 16}, {"glptt-", dotted, 16, 16},
	{"xoxa-", word, 10, 10}, {"xoxb-", word, 10, 10}, {"xoxe-", word, 10, 10}, {"xoxe.", dotted, 10, 10}, {"xoxo-", word, 10, 10},
	{"xoxp-", word, 10, 10}, {"xoxr-", word, 10, 10}, {"xoxs-", word, 10, 10}, {"xapp-", word, 10, 10}, // Slack
	{"AKIA", upper, 16, 16}, {"ASIA", upper, 16, 16}, // AWS
	{"AIza", word, 30, 30}, {"ya29.", dotted, 16, 16}, {"GOCSPX-", word, 16, 16}, // Google
	{"npm_", word, 30, 30}, {"pypi-", word, 32, 32}, {"rubygems_", word, 32, 32}, {"dckr_pat_", word, 16, 16},
	{"SG.", dotted, 32, 40}, {"hf_", word, 30, 34}, {"gsk_", word, 32, 32}, {"xai-", word, 32, 60}, {"nvapi-", word, 32, 32},
	{"dop_v1_", word, 32, 32}, {"shpat_", word, 30, 30}, {"shpss_", word, 30, 30}, {"sq0atp-", word, 16, 16}, {"sq0csp-", word, 16, 16},
	{"hvs.", dotted, 20, 20}, {"hvb.", dotted, 20, 20}, {"tskey-", word, 16, 16}, {"lin_api_", word, 16, 16}, {"glsa_", word, 30, 30}, {"sbp_", word, 32, 32},
	{"AGE-SECRET-KEY-1", word, 16, 16},
}

// beginning lists the keys by their first byte, a letter in both its cases.
var beginning = func() (table [256][]key) {
	for _, k := range keys {
		for _, first := range []byte{k.prefix[0] | ' ', k.prefix[0] &^ ' '} {
			table[first] = append(table[first], k)
		}
	}
	return table
}()

// keys finds what begins as a key does.
func (t *cleaned) keys(found []span) []span {
	for i := range len(t.text) {
		for _, k := range beginning[t.text[i]] {
			body := i + len(k.prefix)
			if !strings.EqualFold(t.text[i:min(body, len(t.text))], k.prefix) {
				continue
			}
			least := k.least
			if t.inWord(i) || t.text[i:body] != k.prefix {
				least = k.glued
			}
			if end := t.far[k.set][t.ends[k.set][body]]; end-body >= least {
				found = append(found, span{i, end, "key"})
			}
		}
	}
	return found
}

// inWord reports whether a letter, digit or underscore stands directly before i.
func (t *cleaned) inWord(i int) bool {
	if i == 0 || t.edge[i] {
		return false
	}
	r, _ := utf8.DecodeLastRuneInString(t.text[:i])
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// bearers finds the word bearer and what it announces.
func (t *cleaned) bearers(found []span) []span {
	const announced = "bearer"
	for i := 0; i+len(announced) < len(t.text); i++ {
		if !strings.EqualFold(t.text[i:i+len(announced)], announced) {
			continue
		}
		at := t.announcement(i + len(announced))
		if end := t.ends[token68][at]; at > i+len(announced) || t.edge[at] {
			if end > at {
				found = append(found, span{i, end, "bearer"})
			}
		}
	}
	return found
}

// called are the words that may stand between bearer and what it announces.
var called = []string{"token", "_token", "-token", "access", "auth", "key", "secret", "value", "is", "was"}

// announcement returns the end of what stands between the word and the token.
func (t *cleaned) announcement(at int) int {
	for {
		r, n := utf8.DecodeRuneInString(t.text[at:])
		switch {
		case strings.HasPrefix(t.text[at:], "%20"):
			at += len("%20")
		case strings.ContainsRune(`:="'<+`, r) || unicode.Is(unicode.Zs, r):
			at += n
		default:
			end := t.ends[word][at]
			if !slices.ContainsFunc(called, func(name string) bool { return strings.EqualFold(t.text[at:end], name) }) {
				return at
			}
			at = end
		}
	}
}

// jwts finds a JSON object in base64url, a dot and more of it: two parts at least, so that
// one without its signature is found as well, and five at most (RFC 7516).
func (t *cleaned) jwts(found []span) []span {
	for i := range len(t.text) {
		if !slices.ContainsFunc(objects, func(object string) bool { return strings.HasPrefix(t.text[i:], object) }) {
			continue
		}
		first := t.far[word][t.ends[word][i]]
		end := first
		for parts := 1; parts < 5 && end < len(t.text) && t.text[end] == '.' && t.ends[word][end+1] > end+1; parts++ {
			end = t.far[word][t.ends[word][end+1]]
		}
		if end > first {
			found = append(found, span{i, end, "jwt"})
		}
	}
	return found
}

// objects are the beginnings of JSON objects in base64url: a brace, then a quotation mark
// or white space, as pretty-printed ones have it.
var objects = []string{"eyJ", "eyAi", "eyAg", "eyAK", "eyAN", "eyAJ", "ewog", "ewoi", "ewoJ", "ewoK", "ew0K", "ewkg", "ewki", "ewkJ"}

// pems finds PEM blocks, and those of SSH2 (RFC 4716), whose markers have a dash less and a
// space. One without an end goes on to the end of the text. The next is looked for from the
// end marker on, whose dashes may be those of a beginning.
func (t *cleaned) pems(found []span) []span {
	for _, dashes := range []string{"-----", "---- "} {
		for rest := t.text; ; {
			_, block, begins := strings.Cut(rest, dashes+"BEGIN")
			if !begins {
				break
			}
			from := len(t.text) - len(block) - len(dashes+"BEGIN")
			_, rest, _ = strings.Cut(block, dashes+"END")
			_, behind, _ := strings.Cut(rest, strings.TrimSpace(dashes))
			found = append(found, span{from, len(t.text) - len(behind), "pem"})
		}
	}
	return found
}

// emails finds addresses.
func (t *cleaned) emails(found []span) []span {
	const encoded = "%40" // an @ in a URL
	from := 0             // of the run of local characters that ends here
	opening, closing := -1, -1
	for i := 0; i < len(t.text); i++ {
		at := 0
		switch c := t.text[i]; {
		case c == '@':
			at = 1
		case strings.HasPrefix(t.text[i:], encoded):
			at = len(encoded)
		case c == '"' && !strings.HasSuffix(t.text[:i], `\`):
			opening, closing = closing, i
		}
		if at > 0 {
			begin := from
			if opening >= 0 && closing == i-1 { // "as it likes"@
				begin = opening
			}
			if end := t.host(i + at); end > 0 && begin < i {
				found = append(found, span{begin, end, "email"})
			}
			i += at - 1
		}
		if at > 0 || members[t.text[i]]&(1<<local) == 0 {
			from = i + 1
		}
	}
	return found
}

// host returns the end of the name with a dot, or the address in brackets, that begins at
// i, or 0.
func (t *cleaned) host(i int) int {
	if strings.HasPrefix(t.text[i:], "[") {
		if end := t.ends[literal][i+1]; end > i+1 && strings.HasPrefix(t.text[end:], "]") {
			return end + 1
		}
		return 0
	}
	name := strings.TrimRight(t.text[i:t.ends[domain][i]], ".-")
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || utf8.RuneCountInString(name[dot+1:]) < 2 {
		return 0
	}
	return i + len(name)
}
