package narrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Project is what is told of a project of the context perimeter.
type Project struct {
	ID           string `json:"id"`
	Handle       string `json:"handle"`
	Slug         string `json:"slug"`
	CreatedAt    string `json:"createdAt"`
	Environments struct {
		Production environment `json:"production"`
		Staging    environment `json:"staging"`
	} `json:"environments"`
	Head string `json:"head"`
}

type environment struct {
	Selected string `json:"selected"`
	Build    *Build `json:"build"`
	Draft    *Build `json:"draft"`
}

// Build is what is told of a Build or a draft.
type Build struct {
	Environment string `json:"environment"`
	Number      int64  `json:"number"`
	Digest      string `json:"digest"`
	Draft       bool   `json:"draft"`
	Documents   int64  `json:"documents"`
	Cases       int64  `json:"cases"`
	Bytes       int64  `json:"bytes"`
	PublishedAt string `json:"publishedAt"`
	Unchanged   bool   `json:"unchanged"`
	Changes     *struct {
		Added   int64 `json:"added"`
		Changed int64 `json:"changed"`
		Removed int64 `json:"removed"`
	} `json:"changes"`
}

// ParseProject reads a project as it was answered.
func ParseProject(raw []byte) (*Project, error) {
	var p Project
	return &p, parse(raw, &p, func() bool { return p.ID != "" }, "a project")
}

// ParseProjects reads a list of them.
func ParseProjects(list []json.RawMessage) ([]*Project, error) { return each(list, ParseProject) }

// ParseBuild reads what publishing answers.
func ParseBuild(raw []byte) (*Build, error) {
	var b Build
	return &b, parse(raw, &b, func() bool { return b.Digest != "" }, "a Build")
}

// parse reads an answer that is what it should be when there says so.
func parse(raw []byte, v any, there func() bool, what string) error {
	if err := json.Unmarshal(raw, v); err != nil || !there() {
		return fmt.Errorf("narrate: the answer is not %s: %s", what, plain(string(raw)))
	}
	return nil
}

func each[T any](list []json.RawMessage, read func([]byte) (T, error)) ([]T, error) {
	all := make([]T, len(list))
	for i, raw := range list {
		var err error
		if all[i], err = read(raw); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// table writes rows of cells under their names, aligned.
func table(w io.Writer, names string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(names, " ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = or(plain(cell), "-")
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// Projects writes a line for each project.
func Projects(w io.Writer, projects []*Project, now time.Time) error {
	var rows [][]string
	for _, p := range projects {
		rows = append(rows, []string{p.Handle + "/" + p.Slug, p.Environments.Production.hands(), p.Environments.Staging.hands(), Age(p.CreatedAt, now), p.ID})
	}
	return table(w, "PROJECT PRODUCTION STAGING AGE ID", rows)
}

// hands says in two words what an environment hands out.
func (e *environment) hands() string {
	switch {
	case e.Selected == "build" && e.Build != nil:
		return fmt.Sprintf("Build %d", e.Build.Number)
	case e.Selected == "draft":
		return "draft"
	}
	return "nothing"
}

// ShowProject writes a project: what each environment hands out, and where.
func ShowProject(w io.Writer, p *Project, origin string, now time.Time) error {
	path := "/" + p.Handle + "/" + p.Slug
	fmt.Fprintf(w, "Project %s\n  id           %s\n  created      %s ago\n", plain(p.Handle+"/"+p.Slug), plain(p.ID), Age(p.CreatedAt, now))
	for _, e := range []struct {
		name, base string
		environment
	}{{"production", origin + path, p.Environments.Production}, {"staging", origin + path + "/staging", p.Environments.Staging}} {
		fmt.Fprintf(w, "  %-12s hands out %s at %s\n", e.name, e.hands(), plain(e.base))
		for _, b := range []*Build{e.Build, e.Draft} {
			if b != nil {
				fmt.Fprintf(w, "  %-12s   %s: %s, %s ago, digest %s\n", "", b.name(), b.holds(), Age(b.PublishedAt, now), plain(b.Digest))
			}
		}
	}
	_, err := fmt.Fprintf(w, "  page         %s\n  head         %s\n", plain(origin+"/projects/"+p.ID), plain(p.Head))
	return err
}

func (b *Build) name() string {
	if b.Number == 0 {
		return "draft"
	}
	return fmt.Sprintf("Build %d", b.Number)
}

func (b *Build) holds() string { return Holds(b.Documents, b.Cases, b.Bytes) }

// Holds is what is in a Build, in a few words.
func Holds(documents, cases, bytes int64) string {
	return fmt.Sprintf("%s, %s, %d bytes", counted(documents, "document"), counted(cases, "test case"), bytes)
}

func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Published writes what a publication has made.
func Published(w io.Writer, b *Build) error {
	what := "published"
	switch {
	case b.Unchanged:
		what = "unchanged: its environment hands out exactly this already"
	case b.Draft:
		what = "saved"
	}
	fmt.Fprintf(w, "%s %s: %s\n  digest   %s\n  holds    %s\n", plain(b.Environment), b.name(), what, plain(b.Digest), b.holds())
	if c := b.Changes; c != nil && !b.Unchanged {
		fmt.Fprintf(w, "  changes  %d added, %d changed, %d removed\n", c.Added, c.Changed, c.Removed)
	}
	return nil
}

// Client is what is told of who may ask a project for context.
type Client struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"`
	Kind         string  `json:"kind"`
	Profile      string  `json:"profile"`
	Environment  string  `json:"environment"`
	TurnProtocol string  `json:"turnProtocol"`
	Generation   int64   `json:"generation"`
	CreatedAt    string  `json:"createdAt"`
	RevokedAt    *string `json:"revokedAt"`
}

// Issued is a client with its new token, or the token alone of a shared one.
type Issued struct {
	Client Client `json:"client"`
	Token  string `json:"token"`
}

// ParseIssued reads an answer with a token. Its error shows nothing of the answer.
func ParseIssued(raw []byte) (Issued, error) {
	var i Issued
	if err := json.Unmarshal(raw, &i); err != nil || i.Token == "" || plain(i.Token) != i.Token {
		return i, errors.New("narrate: the answer holds no token")
	}
	i.Client.ID = plain(i.Client.ID)
	return i, nil
}

// ParseClients reads a list of clients.
func ParseClients(list []json.RawMessage) ([]*Client, error) {
	return each(list, func(raw []byte) (*Client, error) {
		var c Client
		return &c, parse(raw, &c, func() bool { return c.ID != "" }, "a client")
	})
}

// Revoked is when the client was revoked, "" when it was not.
func (c *Client) Revoked() string {
	if c.RevokedAt == nil {
		return ""
	}
	return plain(*c.RevokedAt)
}

// Clients writes a line for each client.
func Clients(w io.Writer, clients []*Client, now time.Time) error {
	var rows [][]string
	for _, c := range clients {
		token := fmt.Sprintf("generation %d", c.Generation)
		if c.RevokedAt != nil {
			token = "revoked"
		}
		rows = append(rows, []string{c.ID, c.Kind, c.Profile, c.Environment, c.TurnProtocol, token, Age(c.CreatedAt, now), c.Name})
	}
	return table(w, "ID KIND PROFILE ENV TURNS TOKEN AGE NAME", rows)
}
