package console

import (
	"embed"
	"net/http"
	"sync"

	"countersign/evidence"
	"countersign/internal/console/frame"
	"countersign/internal/supervision/records"
)

// Config is what the pages read from.
type Config struct {
	Reader *records.Reader
	Keys   evidence.Keys // the verification keys, oldest first
}

//go:embed template/*.html
var templates embed.FS

var views = sync.OnceValue(func() frame.Views { return frame.Parse(templates, words) })

// Register adds the pages.
func Register(f *frame.Frame, c Config) {
	s := &site{c}
	page := func(path string, h func(*http.Request) (*frame.Page, error)) { f.Page(path, views(), h) }
	page("/approvals", s.approvals)
	page("/runs", s.runs)
	page("/runs/{id}", s.run)
	page("/limits", s.limits)
	page("/freeze", s.freeze)
	f.Live("watch-lists", livePath, s.look)
}

type site struct{ Config }
