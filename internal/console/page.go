package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/evidence"
	"countersign/internal/channel/edge"
)

//go:embed template/*.html
var templates embed.FS

//go:embed asset/*
var assets embed.FS

// page is one page in the layout that all share.
type page struct {
	Template string // name of the file that has the main part
	Title    string
	Section  string        // of the navigation
	Now      evidence.Time // the server's, from which the page counts; 0 when nothing on it expires
	Live     string        // path of the stream that says that the page is no longer current, "" when it stays
	Head     int64         // sequence behind which the stream begins
	Freeze   *standing     // nil on pages without a session
	Data     any
}

// policy lets in what this site serves as files, and nothing inline. A form whose
// script did not run goes nowhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (s *site) show(w http.ResponseWriter, r *http.Request, status int, p *page) {
	var b bytes.Buffer
	if err := layout(p.Template).Execute(&b, p); err != nil {
		s.api.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	w.Write(b.Bytes()) // an error means that the client has left
}

// layout returns the layout with a page's main part in it.
func layout(name string) *template.Template { return layouts()[name] }

var layouts = sync.OnceValue(func() map[string]*template.Template {
	base := template.Must(template.New("layout.html").Funcs(words).ParseFS(templates, "template/layout.html", "template/part.html"))
	all := map[string]*template.Template{}
	files, err := templates.ReadDir("template")
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".html"); name != "layout" && name != "part" {
			all[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, "template/"+f.Name()))
		}
	}
	return all
})

// file is an asset as it is served.
type file struct {
	body []byte
	kind string
	tag  string
}

var files = sync.OnceValue(func() map[string]file {
	all := map[string]file{"advice.json": newFile("advice.json", advice())}
	entries, err := assets.ReadDir("asset")
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, e := range entries {
		body, err := assets.ReadFile("asset/" + e.Name())
		if err != nil {
			panic(err)
		}
		all[e.Name()] = newFile(e.Name(), body)
	}
	return all
})

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".js" {
		kind = "text/javascript; charset=utf-8" // whatever the machine's table says
	}
	return file{body, kind, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// advice is what to do next after each refusal, for the page's script.
func advice() []byte {
	next := map[string]string{}
	for _, r := range edge.Reasons() {
		next[r.Code] = r.Next
	}
	body, err := json.Marshal(next)
	if err != nil {
		panic(err) // strings only
	}
	return body
}

// asset serves a file of the pages. Browsers ask each time whether it has changed.
func (s *site) asset(w http.ResponseWriter, r *http.Request) {
	f, known := files()[r.PathValue("name")]
	if !known {
		s.missing(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
