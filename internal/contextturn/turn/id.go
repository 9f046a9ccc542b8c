package turn

import (
	"regexp"
	"strings"

	"countersign/internal/authority"
	"countersign/internal/contextturn/redact"
)

var (
	hex32     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	tool      = regexp.MustCompile(`^mcp__seif__[a-z0-9_]{1,64}$`)
	toolUseID = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
)

// IsID reports whether s is prefix and 32 lowercase hex digits.
func IsID(prefix, s string) bool {
	rest, found := strings.CutPrefix(s, prefix)
	return found && hex32.MatchString(rest)
}

// NewID makes an identifier that sorts by time: prefix and a UUIDv7 without dashes.
func NewID(prefix string, fresh *authority.Fresh) string {
	return prefix + strings.ReplaceAll(fresh.ID(), "-", "")
}

// IsTool reports whether s has the form of a tool that a hook may report (S-051).
func IsTool(s string) bool { return tool.MatchString(s) }

// IsToolUseID reports whether s is an opaque runtime id within its bound (S-052, S-054).
func IsToolUseID(s string) bool { return toolUseID.MatchString(s) }

// IsSecret reports whether s looks like a secret. What a client says and evidence holds
// plainly stands in a signed chain and cannot be erased there, so it is rejected (G-34),
// not redacted. That is for whoever decides: the machine does not ask, since what is found
// here may grow, and a chain that was lawful stays so.
//
// The tools' prefix ends like that of our tokens and begins none.
func IsSecret(s string) bool { return redact.Finds(strings.ReplaceAll(s, "mcp__seif__", "")) }
