package content

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/internal/canon"
)

// Document is one document as it was written, and what its front matter says.
type Document struct {
	Ref        string   // its id
	Title      string   //
	Tags       []string //
	Profiles   []string // whom it is for; empty: everyone
	Author     string   // "" when not said
	Source     string   // "" when not said
	Supersedes []string // refs of documents that it stands in for
	Conflicts  []string // refs of documents that say something else
	Text       string   // below the front matter; a part of Raw
	Raw        string   // the whole file: what is stored and hashed
	SHA256     string   // of Raw, in lower-case hex
	Bytes      int      // of Raw
	File       string   // where a folder has it; "" elsewhere

	lines map[string]int // of the id, and of each ref that a key names
}

// VisibleTo reports whether a client of the profile may be handed the document.
func (d *Document) VisibleTo(profile string) bool {
	return len(d.Profiles) == 0 || slices.Contains(d.Profiles, profile)
}

// Entry is the document's line of a manifest.
func (d *Document) Entry() Entry {
	return Entry{Ref: d.Ref, Title: d.Title, SHA256: d.SHA256, Bytes: d.Bytes}
}

var (
	refForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$`)
	profileForm = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

// IsRef reports whether s has the form of an id.
func IsRef(s string) bool { return refForm.MatchString(s) }

// IsProfile reports whether s has the form of a profile.
func IsProfile(s string) bool { return profileForm.MatchString(s) }

// ParseDocument reads one document. It returns nil and every fault that it can
// see when the document cannot be published; raw is not kept.
func ParseDocument(raw []byte) (*Document, []Fault) {
	if fault := unreadable(raw, MaxDocument); fault != nil {
		return nil, []Fault{*fault}
	}
	whole := string(raw)
	matter, text, first, fault := split(whole)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	d := &Document{Text: text, Raw: whole, SHA256: canon.Hash(raw), Bytes: len(raw), lines: map[string]int{}}
	faults := d.read(matter)
	if strings.TrimSpace(text) == "" {
		faults = append(faults, Fault{Line: first, Text: "there is no text below the front matter; write some"})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return d, nil
}

// unreadable says why a file of at most limit bytes is not text of ours.
func unreadable(raw []byte, limit int) *Fault {
	switch {
	case len(raw) == 0:
		return &Fault{Text: "the file is empty; write it or remove it"}
	case len(raw) > limit:
		return &Fault{Text: fmt.Sprintf("it has more than %d bytes; split it", limit)}
	case bytes.HasPrefix(raw, []byte("\ufeff")):
		return &Fault{Line: 1, Text: "it begins with a byte order mark; save it as UTF-8 without one"}
	}
	for line, rest := 1, raw; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return &Fault{Line: line, Text: "it is not UTF-8; save it as UTF-8"}
		case r == 0:
			return &Fault{Line: line, Text: "it holds the character U+0000; remove it"}
		case r == '\n':
			line++
		}
		rest = rest[size:]
	}
	return nil
}

// split takes the front matter off. first is the line on which the text begins.
func split(whole string) (matter, text string, first int, fault *Fault) {
	opening, rest, _ := strings.Cut(whole, "\n")
	if strings.TrimRight(opening, " \t\r") != "---" {
		return "", "", 0, &Fault{Line: 1, Text: "the first line is not ---; begin with front matter: ---, id, title, ---"}
	}
	for at, line := 0, 2; at < len(rest); line++ {
		end := strings.IndexByte(rest[at:], '\n')
		next := at + end + 1
		if end < 0 {
			end, next = len(rest)-at, len(rest)
		}
		if strings.TrimRight(rest[at:at+end], " \t\r") == "---" {
			if at > MaxFrontMatter {
				return "", "", 0, &Fault{Line: 1, Text: fmt.Sprintf("the front matter has %d bytes, at most %d are allowed; shorten it", at, MaxFrontMatter)}
			}
			return rest[:at], rest[next:], line + 1, nil
		}
		at = next
	}
	return "", "", 0, &Fault{Line: 1, Text: "the front matter does not end; close it with a line of ---"}
}

// badLine says what is wrong with a value that is shown on one line.
func badLine(s string, limit int) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "is empty; write it or leave the key out"
	case utf8.RuneCountInString(s) > limit:
		return fmt.Sprintf("has more than %d characters; shorten it", limit)
	case strings.ContainsFunc(s, func(r rune) bool { return !prints(r) }):
		return "holds a line break or a character that does not print; remove it"
	}
	return ""
}
