package evaluate

import (
	"path/filepath"
	"testing"
)

func TestSelfTest(t *testing.T) {
	folder, err := NewFolder(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	records, differences, err := SelfTest(t.Context(), Config{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		t.Errorf("%+v", d)
	}
	t.Log(len(records))
}
