package channel_test

import (
	"bytes"
	"testing"

	"countersign/api"
	"countersign/internal/channel"
)

// The published document is the one that the serving code makes.
func TestDocumentInStep(t *testing.T) {
	document, err := channel.Document()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(document, api.OpenAPI) {
		t.Error("api/openapi.json is not what the routes say; write it again: go run ./cmd/countersign openapi > api/openapi.json")
	}
}
