package console_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
)

// get is what the server answers somebody who is signed in.
func (p *perimeter) get(path string) (status int, header http.Header, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "GET", p.origin+path, nil)
	must(p.t, err)
	r.Header.Set("Cookie", p.session)
	r.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(r)
	must(p.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(p.t, err)
	return resp.StatusCode, resp.Header, string(raw)
}

var (
	anchor   = regexp.MustCompile(`<a [^>]*>`)
	href     = regexp.MustCompile(`href="([^"]*)"`)
	download = regexp.MustCompile(`download="([^"]*)"`)
	toldHead = regexp.MustCompile(`--head ([0-9]+:[0-9a-f]{64})`)
	someID   = regexp.MustCompile(`[a-z]{3}_[0-9a-f]{32}`)
)

// Every link of every page of a project leads to a page, or to evidence that is offered as
// a file and that verifies with the head that the page tells once.
func TestEveryLinkLeads(t *testing.T) {
	t.Parallel()
	p := newTraced(t)
	late := p.c.start("")
	p.clock.Move(16 * time.Minute)
	p.try("POST", p.c.base+"turns/"+late+"/complete", object{"status": "completed"}, p.c.header("")) // answered with what the turn is by now
	reporter := p.client("Reporter", "production", "custom", "absent")
	for i := range 51 {
		reporter.call("", "report-gap", object{"task": fmt.Sprintf("What is missing, %d?", i)})
	}
	p.owner("POST", "/token", object{"environment": "staging", "profile": "support"}, nil)
	list, err := os.ReadFile(filepath.Join(p.dir, "keys", "evidence.pub"))
	must(t, err)
	keys, err := evidence.ParseKeys(list)
	must(t, err)

	seen, kinds, files := map[string]bool{"/projects": true}, map[string]bool{}, map[string]bool{}
	for queue := []string{"/projects"}; len(queue) > 0; queue = queue[1:] {
		page := queue[0]
		status, _, body := p.get(page)
		if status != http.StatusOK {
			t.Errorf("%s: %d", page, status)
			continue
		}
		address, err := url.Parse(page)
		must(t, err)
		kinds[someID.ReplaceAllString(address.Path, "ID")] = true
		if !strings.HasPrefix(page, "/projects") {
			continue // of another part
		}
		heads := toldHead.FindAllStringSubmatch(body, -1)
		for _, tag := range anchor.FindAllString(body, -1) {
			found := href.FindStringSubmatch(tag)
			if found == nil {
				t.Errorf("%s: %s has no address", page, tag)
				continue
			}
			to := html.UnescapeString(found[1])
			name := download.FindStringSubmatch(tag)
			switch {
			case strings.HasPrefix(to, "#"):
				if !strings.Contains(body, `id="`+to[1:]+`"`) {
					t.Errorf("%s: %s is not there", page, to)
				}
			case name != nil:
				if len(heads) == 0 {
					t.Errorf("%s: no head for %s", page, to)
					continue
				}
				head, err := evidence.ParseLink(heads[0][1])
				must(t, err)
				if heads = heads[1:]; files[to] {
					continue
				}
				files[to] = true
				status, header, file := p.get(to)
				if status != http.StatusOK || header.Get("Content-Disposition") != `attachment; filename="`+name[1]+`"` {
					t.Errorf("%s: %s: %d %s", page, to, status, header.Get("Content-Disposition"))
					continue
				}
				if n := strings.Count(body, head.String()); n != 1 {
					t.Errorf("%s: the head of %s stands there %d times", page, to, n)
				}
				report, err := evidence.Verify(strings.NewReader(file), keys, evidence.Options{Head: head})
				must(t, err)
				if !report.OK() {
					t.Errorf("%s: %s does not verify with %s: %+v", page, to, head, report)
				}
			case !seen[to]:
				seen[to] = true
				queue = append(queue, to)
			}
		}
		if len(heads) > 0 {
			t.Errorf("%s: %d heads have no evidence", page, len(heads))
		}
	}
	for _, kind := range []string{
		"/projects", "/projects/ID", "/projects/ID/traces", "/projects/ID/traces/ID", "/projects/ID/recorder", "/projects/ID/recorder/ID",
		"/projects/ID/clients/ID", "/projects/ID/gaps", "/approvals", "/runs", "/limits", "/freeze", "/incident",
	} {
		if !kinds[kind] {
			t.Errorf("no link leads to %s", kind)
		}
	}
	for _, kind := range []string{"", "/mcp/clients/ID", "/turns/ID", "/interactions/ID", "/gaps/ID"} {
		found := 0
		for file := range files {
			if someID.ReplaceAllString(file, "ID") == "/api/projects/ID"+kind+"/evidence" {
				found++
			}
		}
		if found == 0 {
			t.Errorf("no evidence of %q is offered", kind)
		}
	}
	if !files["/api/projects/"+p.id+"/interactions/"+p.bridged+"/evidence"] {
		t.Error("no evidence of a bridge's receipt is offered")
	}
	for _, next := range []string{"/recorder?before=", "/gaps?before="} {
		found := false
		for to := range seen {
			found = found || strings.HasPrefix(to, p.at(next))
		}
		if !found {
			t.Errorf("no link leads to the second page of %s", next)
		}
	}
}

// An address that cannot be one of a page is refused, not answered with an empty list; and
// what is not there leads back to the projects.
func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.project("acme/help")
	client := p.client("Desk", "production", "custom", "required")
	const turn = "trn_01940e2e7c0070008000000000000001"
	for path, want := range map[string]int{
		p.at("/recorder?turn=" + turn): 200, p.at("/recorder?client=" + client.id): 200, p.at("/traces?client=" + client.id + "&status=OPEN"): 200,
		p.at("/recorder?turn=xx"): 400, p.at("/recorder?turn="): 400, p.at("/recorder?turn=" + turn + "&turn=" + turn): 400, p.at("/recorder?client=" + turn): 400,
		p.at("/recorder?before=" + turn): 400, p.at("/recorder?turn=%zz"): 400, p.at("/recorder?trun=" + turn): 400,
		p.at("/traces?client=xx"): 400, p.at("/traces?status=open"): 400, p.at("/traces?before=xx"): 400, p.at("/traces?turn=" + turn): 400,
		p.at("/gaps?before=" + turn): 400, p.at("/clients?before=xx"): 400, p.at("?before=xx"): 400, "/projects?client=xx": 400,
		p.at("/traces/xx"): 404, p.at("/traces/" + turn): 404, p.at("/recorder/xx"): 404, p.at("/clients/xx"): 404, p.at("/nothing"): 404, p.at("/gaps/xx"): 404, "/projects/xx": 404, "/projects/xx/gaps": 404,
	} {
		status, _, body := p.get(path)
		if status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
		_, main, _ := strings.Cut(body, "<main")
		if want != 200 && (!strings.Contains(main, `<a href="/projects">`) || strings.Contains(main, `<a href="/runs">`)) {
			t.Errorf("%s leads elsewhere: %s", path, main)
		}
	}
	if _, _, body := p.get("/runs/xx"); !strings.Contains(body, "What waits") {
		t.Error("control: what is not below the projects leads to the runs")
	}
}

// Each line of a turn, and each kind of interaction, has an entry of the same class in the
// explanation of the classes below it.
func TestEveryClassIsExplained(t *testing.T) {
	t.Parallel()
	p := newTraced(t)
	line := regexp.MustCompile(`(?s)<h3>([^<]*)</h3><span class="chip class [a-z]+">([^<]*)</span>`)
	explained := regexp.MustCompile(`<dt><span class="chip class [a-z]+">([^<]*)</span> ([^<]*)</dt>`)
	read := func(path string) (of map[string]bool, body string) {
		t.Helper()
		status, _, body := p.get(path)
		if status != 200 {
			t.Fatalf("%s: %d", path, status)
		}
		of = map[string]bool{}
		for _, m := range explained.FindAllStringSubmatch(body, -1) {
			of[m[1]+" "+m[2]] = true
		}
		return of, body
	}
	shown := map[string]bool{}
	for _, id := range []string{p.with, p.failed, p.expired} {
		of, body := read(p.at("/traces/" + id))
		for _, m := range line.FindAllStringSubmatch(body, -1) {
			if what := m[2] + " " + m[1]; !of[what] {
				t.Errorf("%s: %q is not explained", id, what)
			} else {
				shown[what] = true
			}
		}
	}
	if len(shown) < 5 {
		t.Errorf("only %v were looked at", shown)
	}
	of, body := read(p.at("/recorder"))
	for _, want := range []string{"observed a call with items", "observed a call without items", "bridge-observed a receipt of a bridge"} {
		if !of[want] {
			t.Errorf("%q is not explained", want)
		}
	}
	if !strings.Contains(body, "A call of doctor, test or report-gap, or one that found nothing") {
		t.Error("what has no item is not explained")
	}
}
