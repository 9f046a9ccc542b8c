package command

import (
	"io"
	"slices"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Shown is w for what a terminal may show: characters that would steer it, or turn a line
// around, are written as \uXXXX, as JSON has them, so that lines of JSON say the same as
// before. Line ends and tabs stay. All that the program prints goes through it, because
// names, texts and errors come from others. It is safe for concurrent use; of a character
// that is not whole yet the bytes wait for the next write.
func Shown(w io.Writer) io.Writer { return &shown{w: w} }

type shown struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // less than a character
}

// steering are controls (C0, DEL, C1), formats as of the direction of writing, and the
// line ends that not everybody takes for one.
var steering = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := slices.Concat(s.rest, p)
	out := make([]byte, 0, len(in))
	for len(in) > 0 && utf8.FullRune(in) {
		r, n := utf8.DecodeRune(in)
		switch in = in[n:]; {
		case r == '\n' || r == '\t' || !unicode.In(r, steering...):
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				const hex = "0123456789abcdef"
				out = append(out, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
			}
		}
	}
	s.rest = in
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
