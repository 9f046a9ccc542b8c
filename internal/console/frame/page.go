package frame

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

//go:embed asset/*
var assets embed.FS

// Page is one page in the layout that all share.
type Page struct {
	Template string // name of the file that has the main part, without .html
	Title    string
	Section  string        // of the navigation
	Now      evidence.Time // the server's, from which the page counts; 0 when nothing on it expires
	Live     string        // path of the stream that says that the page is no longer current, "" when it stays
	Head     int64         // sequence behind which the stream begins
	Own      string        // name of the style sheet and of the script that only this page has, without .css and .js; "" for none
	Freeze   *standing     // set by the frame; nil on pages without a session
	Public   string        // set by the frame: path of a page that everybody may see; "" of the others
	Open     []link        // set by the frame: the pages that everybody may see
	Data     any
}

// policy lets in what this site serves as files, and nothing inline. A form whose
// script did not run goes nowhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (f *Frame) show(w http.ResponseWriter, r *http.Request, status int, views Views, p *Page) {
	var b bytes.Buffer
	p.Open = f.open
	if err := views[p.Template].Execute(&b, p); err != nil {
		f.api.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	w.Write(b.Bytes()) // an error means that the client has left
}

// Views are layouts by the name of the template whose main part each has.
type Views map[string]*template.Template

// Parse makes the views of the templates in the folder "template" of files, each of
// which defines "main"; what part.html defines all of them may use. Beside the words of
// every page they may use those of more. It panics when a template is broken: the files
// are part of the program.
func Parse(files embed.FS, more template.FuncMap) Views {
	base := template.Must(template.New("layout.html").Funcs(words).Funcs(more).ParseFS(templates, "template/layout.html"))
	list, err := files.ReadDir("template")
	if err != nil {
		panic(err)
	}
	views := Views{}
	for _, file := range list {
		switch name := strings.TrimSuffix(file.Name(), ".html"); name {
		case "layout":
		case "part":
			template.Must(base.ParseFS(files, "template/part.html"))
		default:
			views[name] = nil
		}
	}
	for name := range views {
		views[name] = template.Must(template.Must(base.Clone()).ParseFS(files, "template/"+name+".html"))
	}
	return views
}

// file is an asset as it is served.
type file struct {
	body []byte
	kind string
	tag  string
}

var files = sync.OnceValue(func() map[string]file {
	all := map[string]file{"advice.json": newFile("advice.json", advice())}
	read(assets, all)
	return all
})

// read takes up the files in the folder "asset".
func read(from embed.FS, all map[string]file) {
	entries, err := from.ReadDir("asset")
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, e := range entries {
		body, err := from.ReadFile("asset/" + e.Name())
		if err != nil {
			panic(err)
		}
		all[e.Name()] = newFile(e.Name(), body)
	}
}

// Assets adds the files in the folder "asset" of a package of pages; what has the name of
// one of the frame's own is not served.
func (f *Frame) Assets(from embed.FS) { read(from, f.more) }

// Asset adds a file that is made rather than embedded.
func (f *Frame) Asset(name string, body []byte) { f.more[name] = newFile(name, body) }

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
func (f *Frame) asset(w http.ResponseWriter, r *http.Request) {
	served, known := files()[r.PathValue("name")]
	if !known {
		served, known = f.more[r.PathValue("name")]
	}
	if !known {
		f.missing(w, r)
		return
	}
	w.Header().Set("Content-Type", served.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", served.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(served.body))
}
