package evidence

import (
	"bytes"
	"strconv"

	"countersign/internal/canon"
)

// FormatError says why bytes are not what they should be: the place, and what
// is wanted there. It never holds submitted values.
type FormatError struct {
	Where string // such as "event 3"
	Want  string // such as "want the member hash as 64 lowercase hex digits"
}

func (e *FormatError) Error() string { return "evidence: " + e.Where + ": " + e.Want }

// fields takes a canonical object apart, member by member in their order. The
// first thing that is not as wanted stays in want; what is read after it is the
// zero value.
type fields struct {
	members []canon.Member
	read    int
	want    string
	room    [10]canon.Member // for an event's members
}

// open begins with the object in raw, which the members alias. It ends what f
// did before.
func (f *fields) open(raw []byte) {
	f.read, f.want = 0, ""
	var err error
	if f.members, err = canon.Members(raw, f.room[:0]); err != nil {
		f.want = "want an object in the canonical form of RFC 8785"
	}
}

// raw returns the value of the next member, which must have this name.
func (f *fields) raw(name string) []byte {
	if f.want != "" {
		return nil
	}
	if f.read < len(f.members) {
		m := f.members[f.read]
		got := string(m.Name[1 : len(m.Name)-1])
		if got == name {
			f.read++
			return m.Value
		}
		if got < name {
			f.want = "want no other member before " + name
			return nil
		}
	}
	f.want = "want the member " + name
	return nil
}

// text returns the next member, a string for which ok holds.
func (f *fields) text(name, what string, ok func(string) bool) string {
	value := f.raw(name)
	if f.want != "" {
		return ""
	}
	s, isText := unquote(value)
	if !isText || !ok(s) {
		f.want = "want the member " + name + " as " + what
		return ""
	}
	return s
}

// unquote returns the text of a canonical value if it is a string. Members were
// accepted as canonical already: only an escape needs a second look.
func unquote(value []byte) (string, bool) {
	if value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	s, err := canon.Unquote(value)
	return s, err == nil
}

// integer returns the next member, an integer of at least least.
func (f *fields) integer(name string, least int64) int64 {
	value := f.raw(name)
	if f.want != "" {
		return 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < least {
		f.want = "want the member " + name + " as an integer from " + strconv.FormatInt(least, 10)
		return 0
	}
	return n
}

// time returns the next member, a time, as it stands there and what it means.
func (f *fields) time(name string) (text string, at Time) {
	text = f.text(name, "RFC 3339 in UTC with milliseconds", func(s string) bool { return at.UnmarshalText([]byte(s)) == nil })
	return text, at
}

// base64 returns the next member, size bytes, as it stands there and decoded.
func (f *fields) base64(name string, size int) (text string, b []byte) {
	text = f.text(name, "base64url without padding of "+strconv.Itoa(size)+" bytes", func(s string) (ok bool) {
		var err error
		b, err = canon.DecodeBase64(s)
		return err == nil && len(b) == size
	})
	return text, b
}

// close refuses members that nobody asked for.
func (f *fields) close() {
	if f.want == "" && f.read < len(f.members) {
		f.want = "want no member behind " + string(f.members[f.read-1].Name)
	}
}

// Spellings of members.
const (
	asHash  = "64 lowercase hex digits"
	asID    = "a UUIDv7 in lowercase"
	asKeyID = "16 lowercase hex digits"
	asName  = "a string that is not empty"
)

func isAny(string) bool                { return true }
func isName(s string) bool             { return s != "" }
func isKeyID(s string) bool            { return len(s) == 16 && isHex(s) }
func is(want string) func(string) bool { return func(s string) bool { return s == want } }

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isUUIDv7 accepts the hyphenated lowercase spelling of RFC 9562, version 7.
func isUUIDv7(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		isHex(s[:8]) && isHex(s[9:13]) && isHex(s[14:18]) && isHex(s[19:23]) && isHex(s[24:]) &&
		s[14] == '7' && (s[19] == '8' || s[19] == '9' || s[19] == 'a' || s[19] == 'b')
}
