package tools

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/contextturn/content"
)

// grown is n documents of sentences of the handbook, put together at random from a
// fixed seed, so that words are as frequent as people use them.
func grown(tb testing.TB, n int) (content.Manifest, stored) {
	tb.Helper()
	folder, _ := readHandbook(tb)
	var sentences, titles []string
	for _, d := range folder.Documents {
		sentences = append(sentences, strings.SplitAfter(strings.TrimSpace(d.Text), ". ")...)
		titles = append(titles, strings.Fields(d.Title)...)
	}
	r := rand.New(rand.NewPCG(5, 5))
	pick := func(from []string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(strings.TrimRight(from[r.IntN(len(from))], ": ") + " ")
		}
		return b.String()
	}
	blobs, docs := stored{}, make([]*content.Document, n)
	for i := range docs {
		raw := fmt.Sprintf("---\nid: page/%d\ntitle: %q\n---\n%s\n", i, strings.TrimSpace(pick(titles, 6)), pick(sentences, 12))
		d, faults := content.ParseDocument([]byte(raw))
		if err := content.Error(faults); err != nil {
			tb.Fatal(err)
		}
		docs[i], blobs[d.SHA256] = d, []byte(raw)
	}
	return content.NewManifest(docs, nil), blobs
}

// fullText is the bare query of FTS5 over the same words of the same documents.
func fullText(b *testing.B, m content.Manifest, blobs stored) *sql.Stmt {
	b.Helper()
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tx.Exec(`CREATE VIRTUAL TABLE words USING fts5(title, tags, text, content='', tokenize='ascii')`); err != nil {
		b.Fatal(err)
	}
	s := newStemmer()
	stemmed := func(text string) string {
		var all []string
		s.each(text, func(_, _ int, stem string) bool {
			all = append(all, stem)
			return true
		})
		return strings.Join(all, " ")
	}
	for i, e := range m.Documents {
		d, _ := content.ParseDocument(blobs[e.SHA256])
		if _, err := tx.Exec(`INSERT INTO words (rowid, title, tags, text) VALUES (?, ?, ?, ?)`, i+1, stemmed(d.Title), stemmed(strings.Join(d.Tags, " ")), stemmed(d.Text)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := tx.Exec(`INSERT INTO words (words) VALUES ('optimize')`); err != nil {
		b.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	bare, err := db.Prepare(`SELECT rowid, bm25(words, 8, 4, 1) AS score FROM words WHERE words MATCH ? ORDER BY score LIMIT 5`)
	if err != nil {
		b.Fatal(err)
	}
	return bare
}

// BenchmarkCompass measures a compass beside the bare query of FTS5 for the same
// words; p99 of both is the comparison that is published.
func BenchmarkCompass(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		m, blobs := grown(b, n)
		build := openManifest(b, m, blobs)
		b.Run(fmt.Sprintf("documents=%d/compass", n), func(b *testing.B) {
			measure(b, func(task string) error {
				_, err := build.Compass(b.Context(), "support", task)
				return err
			})
		})
		b.Run(fmt.Sprintf("documents=%d/fts5", n), func(b *testing.B) {
			bare := fullText(b, m, blobs)
			measure(b, func(task string) error {
				var quoted []string
				for _, w := range newStemmer().content(task) {
					quoted = append(quoted, `"`+w.stem+`"`)
				}
				if len(quoted) == 0 {
					return nil
				}
				rows, err := bare.Query(strings.Join(quoted, " OR "))
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var id int
					var score float64
					if err := rows.Scan(&id, &score); err != nil {
						return err
					}
				}
				return rows.Err()
			})
		})
	}
}

func measure(b *testing.B, call func(task string) error) {
	took := []time.Duration{}
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		if err := call(tasks[i%len(tasks)].task); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*50/100].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkOpen measures how long a Build takes from its documents to its first answer.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		m, blobs := grown(b, n)
		b.Run(fmt.Sprintf("documents=%d", n), func(b *testing.B) {
			for b.Loop() {
				build, err := Open(b.Context(), m, blobs.load)
				if err != nil {
					b.Fatal(err)
				}
				if err := build.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
