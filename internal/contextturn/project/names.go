package project

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/internal/authority"
	"countersign/internal/canon"
)

// Reserved lists, sorted, the handles that no project has: a handle is the first segment
// of a path, and these are or may become first segments of the server's own routes.
var Reserved = []string{
	"about", "account", "admin", "api", "approvals", "assets", "attacks", "auth", "bench", "bridge", "builds", "capabilities", "clients", "contact",
	"context", "context-turns", "dashboard", "docs", "download", "events", "evidence", "export", "favicon", "freeze", "gaps", "graphql", "guardian",
	"guardians", "health", "healthz", "help", "incident", "incidents", "inventory", "keys", "limits", "livez", "login", "logout", "mcp", "metrics",
	"oauth", "openapi", "openapi.json", "operations", "owner", "policies", "privacy", "production", "projects", "protocol", "readyz", "reasons",
	"recorder", "register", "robots", "run", "runbook", "runs", "schemas", "search", "security", "services", "session", "sessions", "settings", "setup",
	"signup", "staging", "static", "status", "store", "stream", "system", "terms", "traces", "turns", "user", "users", "verify", "version",
	"well-known", "workspace", "www",
}

var (
	segment = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)
	slug    = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	tailID  = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// IsHandle reports whether s can be the handle of a project: lowercase letters, digits
// and single hyphens between them, at most [MaxHandle], and not in [Reserved].
func IsHandle(s string) bool {
	_, reserved := slices.BinarySearch(Reserved, s)
	return IsSlug(s) && !reserved
}

// IsSlug reports whether s can be the slug of a project; it is written like a handle.
func IsSlug(s string) bool { return len(s) <= MaxHandle && segment.MatchString(s) }

// IsProfile reports whether s can be the profile of a client: 1 to 40 lowercase letters,
// digits and hyphens.
func IsProfile(s string) bool { return slug.MatchString(s) }

// IsEnvironment reports whether s names an environment.
func IsEnvironment(s string) bool { return s == Production || s == Staging }

// ProjectID is the id of the project at a path: one path has one project.
func ProjectID(handle, slug string) string { return "prj_" + half(handle+"/"+slug) }

// SharedID is the id of the client behind the shared token of an environment.
func SharedID(project, environment string) string { return "shr_" + half(project+"/"+environment) }

// FreshClientID makes the id of a named client. Ids sort by the time of their decision.
func FreshClientID(f *authority.Fresh) string {
	return "cli_" + strings.ReplaceAll(f.ID(), "-", "")
}

// FreshGapID makes the id of a gap. Ids sort by the time of their decision.
func FreshGapID(f *authority.Fresh) string { return "gap_" + strings.ReplaceAll(f.ID(), "-", "") }

// GapMaterial is what makes a gap that one and not another. It is found again by a MAC over
// this and not by a hash, because a hash would tell anybody who guesses the text that he is
// right.
func GapMaterial(project string, r GapReport) []byte {
	return canon.MustMarshal(struct {
		Project     string  `json:"project"`
		Environment string  `json:"environment"`
		Task        *string `json:"task"`
		Ref         *string `json:"ref"`
		Detail      *string `json:"detail"`
	}{project, r.Environment, r.Task, r.Ref, r.Detail})
}

// IsProjectID reports whether s is written as the id of a project.
func IsProjectID(s string) bool { return isID(s, "prj_") }

// IsClientID reports whether s is written as the id of a named or shared client.
func IsClientID(s string) bool { return isID(s, "cli_") || isID(s, "shr_") }

// IsGapID reports whether s is written as the id of a gap.
func IsGapID(s string) bool { return isID(s, "gap_") }

func isID(s, prefix string) bool {
	tail, ok := strings.CutPrefix(s, prefix)
	return ok && tailID.MatchString(tail)
}

// half is the first half of the SHA-256 of s in hex digits.
func half(s string) string { return canon.Hash([]byte(s))[:32] }

// IsName reports whether s can be the name of a client: 1 to [MaxName] characters that
// print, among them one that is not a space. Control and format characters do not print,
// so that a name cannot turn a line of a page or of a terminal around.
func IsName(s string) bool {
	strange := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxName && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, strange)
}
