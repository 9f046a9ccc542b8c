package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// post STATUS PATH TOKENFILE BODY HEADER=VALUE… sends JSON to the script's server with the
// token in a file, as an application would. It must answer with the status; what it answers
// is in the file answer then.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: post STATUS PATH TOKENFILE BODY HEADER=VALUE…")
	}
	r, err := http.NewRequest(http.MethodPost, ts.Getenv("COUNTERSIGN_ORIGIN")+args[1], strings.NewReader(args[3]))
	ts.Check(err)
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[2])))
	r.Header.Set("Content-Type", "application/json")
	for _, header := range args[4:] {
		name, value, _ := strings.Cut(header, "=")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), body, 0o600))
	if want, err := strconv.Atoi(args[0]); err != nil || response.StatusCode != want {
		ts.Fatalf("status %d, want %s\n%s", response.StatusCode, args[0], body)
	}
}

// member NAME FILE MEMBER.MEMBER… puts a member of a JSON file into a variable.
func member(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: member NAME FILE MEMBER.MEMBER…")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &v))
	for name := range strings.SplitSeq(args[2], ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	text, ok := v.(string)
	if !ok {
		ts.Fatalf("%s has no text %s", args[1], args[2])
	}
	ts.Setenv(args[0], text)
}
