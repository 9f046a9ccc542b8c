package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
	"countersign/internal/keys"
	"countersign/internal/ledger"
)

// library is made-up text: documents of 60 to 250 words out of a vocabulary in which
// few words are frequent and many are rare, as in a language. The same size has the same
// text.
type library struct {
	files     []string
	documents []*content.Document
	words     []string
	zipf      *rand.Zipf
}

const vocabulary = 20_000

func newLibrary(documents int) (*library, error) {
	source := rand.New(rand.NewPCG(1, uint64(documents)))
	l := &library{zipf: rand.NewZipf(source, 1.1, 8, vocabulary-1)}
	syllables := strings.Fields("ba be bi bo bu da de di do du fa fe fi fo fu ga ge gi go gu ka ke ki ko ku la le li lo lu ma me mi mo mu na ne ni no nu ra re ri ro ru sa se si so su ta te ti to tu")
	seen := map[string]bool{}
	for len(l.words) < vocabulary {
		var b strings.Builder
		for range 2 + source.IntN(3) {
			b.WriteString(syllables[source.IntN(len(syllables))])
		}
		if word := b.String(); !seen[word] {
			seen[word] = true
			l.words = append(l.words, word)
		}
	}
	for i := range documents {
		file := fmt.Sprintf("---\nid: doc-%05d\ntitle: %s\ntags: [%s]\n---\n%s\n", i, l.text(5), l.text(1), l.text(60+source.IntN(190)))
		d, faults := content.ParseDocument([]byte(file))
		if len(faults) > 0 {
			return nil, content.Error(faults)
		}
		l.files, l.documents = append(l.files, file), append(l.documents, d)
	}
	return l, nil
}

// text is n words of the vocabulary.
func (l *library) text(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = l.words[l.zipf.Uint64()]
	}
	return strings.Join(list, " ")
}

// tasks are what callers ask for: five words that one document has.
func (l *library) tasks(n int) []string {
	source := rand.New(rand.NewPCG(2, uint64(n)))
	list := make([]string, n)
	for i := range list {
		words := strings.Fields(l.documents[source.IntN(len(l.documents))].Text)
		picked := make([]string, 5)
		for j := range picked {
			picked[j] = words[source.IntN(len(words))]
		}
		list[i] = strings.Join(picked, " ")
	}
	return list
}

// differentTasks is how many there are.
const differentTasks = 997

// contextDocuments is the size of the Build in row 10.
const contextDocuments = 1000

// contextPlane is a context gateway in this process with one published Build.
type contextPlane struct {
	*perimeter.Perimeter
	project string
}

func openContext(ctx context.Context, dir string, l closable, lib *library) (*contextPlane, error) {
	loaded, err := keys.Load(dir)
	if err != nil {
		return nil, err
	}
	plane, err := openPlane(dir, l)
	if err != nil {
		return nil, err
	}
	full, ok := l.(perimeter.Ledger)
	if !ok {
		return nil, fmt.Errorf("%T keeps no documents", l)
	}
	c := &contextPlane{Perimeter: perimeter.New(perimeter.Config{
		Ledger: full, Chains: plane, Signing: loaded.Evidence(), MAC: loaded.MAC, Issuer: "http://localhost:8420", Workspace: ledger.DefaultWorkspace,
	})}
	if lib == nil {
		return c, nil
	}
	session := strings.Repeat("0", 64)
	p, err := c.CreateProject(ctx, "acme", "library", session)
	if err != nil {
		return nil, err
	}
	c.project = p.ID
	for at := 0; at < len(lib.files); at += 500 {
		if _, err := c.PutDocuments(ctx, p.ID, lib.files[at:min(at+500, len(lib.files))]); err != nil {
			return nil, err
		}
	}
	_, err = c.Publish(ctx, p.ID, project.Production, false, content.NewManifest(lib.documents, nil), session)
	return c, err
}

// contextCaller is one application: start, compass, complete.
type contextCaller struct {
	plane *contextPlane
	by    *perimeter.Caller
	tasks []string
	done  int
}

func newContexts(ctx context.Context, o order, l closable) (callers []cycler, err error) {
	lib, err := newLibrary(contextDocuments)
	if err != nil {
		return nil, err
	}
	c, err := openContext(ctx, o.Dir, l, lib)
	if err != nil {
		return nil, err
	}
	tasks := lib.tasks(differentTasks)
	for i := range o.Callers {
		_, token, err := c.CreateClient(ctx, c.project, project.ClientRequest{
			Name: "bench", Kind: project.Custom, Profile: "bench", Environment: project.Production, TurnProtocol: project.Required,
		}, strings.Repeat("0", 64))
		if err != nil {
			return nil, err
		}
		by, err := c.Authenticate(ctx, token)
		if err != nil {
			return nil, err
		}
		callers = append(callers, &contextCaller{plane: c, by: by, tasks: tasks, done: i})
	}
	return callers, nil
}

// next names turn and interaction where a cycle names run and permit.
func (c *contextCaller) next(ctx context.Context) (string, string, error) {
	key := func(what string) string { return what + "-" + bareID() }
	started, err := c.plane.Start(ctx, c.by, key("start"), nil)
	if err != nil {
		return "", "", err
	}
	task := c.tasks[c.done%len(c.tasks)]
	c.done++
	a, err := c.plane.Call(ctx, c.by, started.Turn.ID, tools.Request{Tool: turn.Compass, Task: &task})
	if err != nil {
		return "", "", err
	}
	if _, err := c.plane.Complete(ctx, c.by, started.Turn.ID, key("complete"), turn.Completed, nil); err != nil {
		return "", "", err
	}
	return started.Turn.ID, a.Interaction.ID, nil
}
