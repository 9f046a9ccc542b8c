package edge_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkPost compares a POST through the edge with the same work on plain
// net/http and the standard library's decoder, both over loopback.
func BenchmarkPost(b *testing.B) {
	post := func(b *testing.B, url string) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := client.Post(url, "application/json", strings.NewReader(good))
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					b.Errorf("%d", resp.StatusCode)
					return
				}
			}
		})
	}
	b.Run("edge", func(b *testing.B) {
		s := serve(b)
		post(b, s.origin+"/open/here")
	})
	b.Run("plain", func(b *testing.B) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var in thingInput
			if err := json.NewDecoder(r.Body).Decode(&in.Body); err != nil {
				http.Error(w, "bad", 400)
				return
			}
			var out thingOutput
			out.Body.Name, out.Body.Tags = in.Body.Name, in.Body.Tags
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(out.Body)
		}))
		defer s.Close()
		post(b, s.URL)
	})
}
