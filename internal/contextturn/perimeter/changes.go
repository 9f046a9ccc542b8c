package perimeter

import (
	"context"
	"fmt"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/project"
)

// Changes counts the documents, by ref, in which a Build or draft differs from what its
// environment handed out before it.
type Changes struct {
	Added   int64 `json:"added"`
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
}

// changes compares a manifest with the one that is selected; without one everything is
// added.
func (p *Perimeter) changes(ctx context.Context, selected *project.BuildRef, m content.Manifest) (*Changes, error) {
	var c Changes
	if selected == nil {
		c.Added = int64(len(m.Documents))
		return &c, nil
	}
	former, err := p.manifest(ctx, selected.Digest)
	if err != nil {
		return nil, err
	}
	for _, e := range m.Documents {
		switch was, found := former.Find(e.Ref); {
		case !found:
			c.Added++
		case was.SHA256 != e.SHA256:
			c.Changed++
		}
	}
	c.Removed = int64(len(former.Documents)-len(m.Documents)) + c.Added
	return &c, nil
}

// manifest reads the manifest of a Build.
func (p *Perimeter) manifest(ctx context.Context, digest string) (content.Manifest, error) {
	blobs, err := p.Ledger.Blobs(ctx, p.Workspace, []string{digest})
	if err != nil {
		return content.Manifest{}, unavailable(err)
	}
	if len(blobs) != 1 {
		return content.Manifest{}, fmt.Errorf("perimeter: the manifest %s is not stored", digest)
	}
	return content.DecodeManifest(blobs[0].Bytes)
}
