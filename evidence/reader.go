package evidence

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"countersign/internal/canon"
)

// MaxElement is the largest event or text of an export in bytes.
const MaxElement = 16 << 20

// A reader reads an export front to back: count, events, manifest, texts. An
// export is canonical, so every member has its place; what stands between the
// values is compared byte for byte, and each value is checked when it is taken
// apart. Its errors are *FormatError and those of the reader below.
type reader struct {
	in      *bufio.Reader
	n       int64 // of the export's events: what count says
	element []byte
}

func newReader(r io.Reader) *reader { return &reader{in: bufio.NewReaderSize(r, 64<<10)} }

// refuse turns the end of the bytes into a refusal and passes other errors on.
func refuse(err error, where, want string) error {
	if err == nil || errors.Is(err, io.EOF) {
		return &FormatError{where, want}
	}
	return fmt.Errorf("evidence: reading an export: %w", err)
}

// expect reads exactly these bytes.
func (x *reader) expect(bytes, where, want string) error {
	got, err := x.in.Peek(len(bytes))
	if string(got) != bytes {
		return refuse(err, where, want)
	}
	x.in.Discard(len(bytes))
	return nil
}

// member reads the separator and name in front of a member's value.
func (x *reader) member(separator, name string) error {
	return x.expect(separator+`"`+name+`":`, "export", "want the member "+name+", canonical and in its place")
}

// value appends the bytes of the next value to dst. It finds where the value
// ends and leaves it to others to say whether it is one.
func (x *reader) value(dst []byte, where string) ([]byte, error) {
	start, depth, quoted, escaped := len(dst), 0, false, false
	for {
		if _, err := x.in.Peek(1); err != nil {
			return nil, refuse(err, where, "want the rest of it, the bytes end early")
		}
		chunk, _ := x.in.Peek(x.in.Buffered())
		for i := 0; i < len(chunk); i++ {
			if quoted && !escaped {
				if i += plain(chunk[i:]); i == len(chunk) {
					break
				}
			}
			c := chunk[i]
			switch {
			case escaped:
				escaped = false
			case quoted:
				escaped = c == '\\'
				quoted = c != '"'
			case c == '"':
				quoted = true
			case c == '{' || c == '[':
				depth++
			case depth > 0:
				if c == '}' || c == ']' {
					depth--
				}
			case c == ',' || c == ':' || c == '}' || c == ']':
				x.in.Discard(i)
				return append(dst, chunk[:i]...), nil
			}
		}
		dst = append(dst, chunk...)
		x.in.Discard(len(chunk))
		if len(dst)-start > MaxElement {
			return nil, &FormatError{where, fmt.Sprintf("want at most %d bytes", MaxElement)}
		}
	}
}

// plain counts bytes of a string in front of a quote or a backslash. Most of an
// export is inside strings, so this is what makes finding the ends cheap; it
// looks ahead a little only, lest a string of escapes cost its square.
func plain(b []byte) int {
	b = b[:min(len(b), 128)]
	if n := bytes.IndexByte(b, '"'); n >= 0 {
		b = b[:n]
	}
	if n := bytes.IndexByte(b, '\\'); n >= 0 {
		return n
	}
	return len(b)
}

// count reads the beginning up to the first event.
func (x *reader) count() (int64, error) {
	if err := x.member("{", "count"); err != nil {
		return 0, err
	}
	raw, err := x.value(nil, "count")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || !canon.IsCanonical(raw) {
		return 0, &FormatError{"export", "want the member count as an integer from 1"}
	}
	x.n = n
	return n, x.member(",", "events")
}

// event appends the bytes of the event with this number to dst. It returns
// more = false and dst when there is no such event.
func (x *reader) event(dst []byte, number int64) (out []byte, more bool, err error) {
	where := eventAt(number)
	separator := ","
	if number == 1 {
		separator = "["
	} else if next, _ := x.in.Peek(1); string(next) == "]" {
		x.in.Discard(1)
		return dst, false, nil
	}
	if err := x.expect(separator, where, "want another event or the end of the list"); err != nil {
		return nil, false, err
	}
	out, err = x.value(dst, where)
	return out, err == nil, err
}

// events yields all events, one after the other.
func (x *reader) events() iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		var p parser
		for number := int64(1); ; number++ {
			raw, more, err := x.event(nil, number)
			if err == nil && !more {
				return
			}
			var r *record
			if err == nil {
				r, err = p.event(raw, number)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// manifest reads what stands behind the events, up to the first text.
func (x *reader) manifest() (Manifest, error) {
	// The members of the export behind events, as an object of their own.
	raw := []byte{}
	separator := byte('{')
	for _, name := range []string{"exportedAt", "format", "head", "keyId", "publicKey", "signature", "subject"} {
		if err := x.member(",", name); err != nil {
			return Manifest{}, err
		}
		raw = append(append(append(raw, separator, '"'), name...), `":`...)
		var err error
		if raw, err = x.value(raw, "member "+name); err != nil {
			return Manifest{}, err
		}
		separator = ','
	}
	var f fields
	f.open(append(raw, '}'))
	m := Manifest{Count: x.n}
	_, m.ExportedAt = f.time("exportedAt")
	f.text("format", ExportFormat, is(ExportFormat))
	m.Head = f.text("head", asHash, canon.IsHash)
	m.KeyID = f.text("keyId", asKeyID, isKeyID)
	_, publicKey := f.base64("publicKey", ed25519.PublicKeySize)
	m.PublicKey = publicKey
	_, m.Signature = f.base64("signature", ed25519.SignatureSize)
	subject := f.raw("subject")
	if f.close(); f.want != "" {
		return Manifest{}, &FormatError{"export", f.want}
	}
	var err error
	if m.Subject, err = parseSubject(subject); err != nil {
		return Manifest{}, err
	}
	if err := x.member(",", "texts"); err != nil {
		return Manifest{}, err
	}
	return m, x.expect("{", "texts", "want an object")
}

// texts yields all texts and checks that nothing follows the export.
func (x *reader) texts() iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		before := ""
		for {
			t, more, err := x.text(before)
			if err == nil && !more {
				if err = x.end(); err == nil {
					return
				}
			}
			if !yield(t, err) || err != nil {
				return
			}
			before = t.Commitment
		}
	}
}

func (x *reader) text(before string) (t Text, more bool, err error) {
	if next, _ := x.in.Peek(1); string(next) == "}" {
		return Text{}, false, nil
	}
	if before != "" {
		if err := x.expect(",", "text "+before, "want another text or the end of the texts behind it"); err != nil {
			return Text{}, false, err
		}
	}
	name, err := x.value(x.element[:0], "texts")
	if err != nil {
		return Text{}, false, err
	}
	t.Commitment = string(bytes.Trim(name, `"`))
	if string(name) != `"`+t.Commitment+`"` || !canon.IsHash(t.Commitment) || t.Commitment <= before {
		return Text{}, false, &FormatError{"texts", "want names of " + asHash + ", ascending"}
	}
	where := "text " + t.Commitment
	if err := x.expect(":", where, "want a value"); err != nil {
		return Text{}, false, err
	}
	raw, err := x.value(x.element[:0], where)
	if err != nil {
		return Text{}, false, err
	}
	x.element = raw
	var f fields
	f.open(raw)
	_, t.Salt = f.base64("salt", SaltSize)
	t.Text = f.text("text", "a string", isAny)
	if f.close(); f.want != "" {
		return Text{}, false, &FormatError{where, f.want}
	}
	return t, true, nil
}

func (x *reader) end() error {
	const want = "want one newline and nothing behind it"
	if err := x.expect("}}\n", "end of the export", want); err != nil {
		return err
	}
	if _, err := x.in.Peek(1); err != io.EOF {
		return refuse(err, "end of the export", want)
	}
	return nil
}
