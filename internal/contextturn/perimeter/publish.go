package perimeter

import (
	"context"
	"fmt"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/project"
	"countersign/internal/ledger"
)

// Media types of blobs.
const (
	typeDocument = "text/markdown"
	typeManifest = "application/vnd.countersign.build+json"
)

// PutDocuments stores documents, each the whole file, and returns their hashes in that
// order. One that cannot be published is refused, and then none is stored. What no Build
// names is handed out to nobody.
func (p *Perimeter) PutDocuments(ctx context.Context, projectID string, docs []string) ([]string, error) {
	if err := p.Exists(ctx, projectID); err != nil {
		return nil, err
	}
	blobs, hashes := make([]ledger.Blob, len(docs)), make([]string, len(docs))
	size := 0
	for i, text := range docs {
		d, faults := content.ParseDocument([]byte(text))
		if len(faults) > 0 {
			return nil, denied(authority.InvalidRequest, fmt.Sprintf("body.documents[%d]: %s", i, faults[0]))
		}
		hashes[i], size = d.SHA256, size+d.Bytes
		blobs[i] = ledger.Blob{Workspace: p.Workspace, Hash: d.SHA256, Type: typeDocument, Bytes: []byte(text)}
	}
	if len(docs) > ledger.MaxBlobs || size > ledger.MaxBlobBytes {
		return nil, denied(authority.InvalidRequest, fmt.Sprintf("body.documents: at most %d documents of %d bytes together", ledger.MaxBlobs, ledger.MaxBlobBytes))
	}
	if err := p.Ledger.PutBlobs(ctx, blobs); err != nil {
		return nil, unavailable(err)
	}
	return hashes, nil
}

// MissingDocuments returns those of the hashes that no document is stored under, at most
// 1,000 are asked for at once.
func (p *Perimeter) MissingDocuments(ctx context.Context, projectID string, hashes []string) ([]string, error) {
	if err := p.Exists(ctx, projectID); err != nil {
		return nil, err
	}
	if len(hashes) > ledger.MaxBlobs {
		return nil, denied(authority.InvalidRequest, fmt.Sprintf("body.sha256: at most %d at once", ledger.MaxBlobs))
	}
	for i, h := range hashes {
		if !canon.IsHash(h) {
			return nil, denied(authority.InvalidRequest, fmt.Sprintf("body.sha256[%d]: want a SHA-256 in lowercase hex", i))
		}
	}
	missing, err := p.Ledger.Missing(ctx, p.Workspace, hashes)
	if err != nil {
		return nil, unavailable(err)
	}
	return missing, nil
}

// Publish makes the manifest the next Build of an environment, or staging's draft, and
// selects it (G-33). Every document has to be stored. What the environment has selected
// with the same digest already stays, and nothing is published.
//
// The Build is opened for use before it is published: one that could not answer a call
// is never selected.
func (p *Perimeter) Publish(ctx context.Context, projectID, environment string, draft bool, m content.Manifest, session string) (BuildView, error) {
	var out BuildView
	if err := p.Exists(ctx, projectID); err != nil {
		return out, err
	}
	raw, digest, err := m.Encode()
	if err != nil {
		return out, denied(authority.InvalidRequest, "body.manifest: "+err.Error())
	}
	if err := p.checkDocuments(ctx, m); err != nil {
		return out, err
	}
	if err := p.putManifest(ctx, raw, digest); err != nil {
		return out, err
	}
	opened, err := p.shelf.Await(ctx, digest)
	if err != nil {
		return out, err
	}
	opened.Done()
	b := project.BuildRef{Digest: digest, Documents: int64(len(m.Documents)), Cases: int64(len(m.Cases)), Bytes: m.Bytes()}
	err = p.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := p.ProjectState(ctx, projectID)
		if err != nil {
			return nil, err
		}
		if c := s.Current(environment); c != nil && c.Digest == digest && (c.Number == 0) == draft {
			out = viewBuild(environment, *c, true, true)
			out.Changes = &Changes{}
			return nil, nil
		}
		changes, err := p.changes(ctx, s.Current(environment), m)
		if err != nil {
			return nil, err
		}
		d := project.Begin(s, now, ledger.Seed())
		made, denial := d.Publish(environment, b, draft, session)
		if denial != nil {
			return nil, denial
		}
		w, err := p.writeProject(subject, s, d)
		if err != nil {
			return nil, err
		}
		out = viewBuild(environment, made, true, false)
		out.Changes = changes
		return &ledger.Change{Writes: []ledger.Write{w}}, nil
	})
	return out, err
}

// putManifest stores a manifest; one of more than a batch's bytes cannot be.
func (p *Perimeter) putManifest(ctx context.Context, raw []byte, digest string) error {
	if len(raw) > ledger.MaxBlobBytes {
		return denied(authority.InvalidRequest, fmt.Sprintf("body.manifest: at most %d bytes", ledger.MaxBlobBytes))
	}
	if err := p.Ledger.PutBlobs(ctx, []ledger.Blob{{Workspace: p.Workspace, Hash: digest, Type: typeManifest, Bytes: raw}}); err != nil {
		return unavailable(err)
	}
	return nil
}

// checkDocuments denies a manifest of which a document is missing, or is not what the
// manifest says, or does not fit the others. The texts are looked at in batches and not
// kept.
func (p *Perimeter) checkDocuments(ctx context.Context, m content.Manifest) error {
	docs := make([]*content.Document, 0, len(m.Documents))
	err := p.eachBatch(m.Documents, func(batch []content.Entry) error {
		raws, err := p.documents(ctx, hashesOf(batch))
		if err != nil {
			return err
		}
		for i, e := range batch {
			d, faults := content.ParseDocument(raws[i])
			if len(faults) > 0 {
				return denied(authority.InvalidRequest, fmt.Sprintf("body.manifest: %s: %s", e.Ref, faults[0]))
			}
			if d.Entry() != e {
				return denied(authority.InvalidRequest, fmt.Sprintf("body.manifest: the entry of %s is not that of its document", e.Ref))
			}
			d.Raw, d.Text = "", ""
			docs = append(docs, d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if faults := content.Check(docs, m.Cases); len(faults) > 0 {
		return denied(authority.InvalidRequest, fmt.Sprintf("body.manifest: %s (%d faults in all)", faults[0], len(faults)))
	}
	return nil
}

// eachBatch hands entries on in batches that one read of blobs takes.
func (p *Perimeter) eachBatch(entries []content.Entry, do func([]content.Entry) error) error {
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && n < ledger.MaxBlobs && (n == 0 || size+entries[n].Bytes <= ledger.MaxBlobBytes) {
			size += entries[n].Bytes
			n++
		}
		if err := do(entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func hashesOf(entries []content.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.SHA256
	}
	return list
}

// documents reads documents in the order of their hashes. One that is missing is a denial:
// a manifest has been sent before its documents.
func (p *Perimeter) documents(ctx context.Context, hashes []string) ([][]byte, error) {
	blobs, err := p.Ledger.Blobs(ctx, p.Workspace, hashes)
	if err != nil {
		return nil, unavailable(err)
	}
	stored := make(map[string][]byte, len(blobs))
	for _, b := range blobs {
		stored[b.Hash] = b.Bytes
	}
	raws := make([][]byte, len(hashes))
	for i, h := range hashes {
		raw, found := stored[h]
		if !found {
			return nil, denied(authority.InvalidRequest, fmt.Sprintf("body.manifest: the document %s is not stored; send it first", h))
		}
		raws[i] = raw
	}
	return raws, nil
}

// Builds returns what the environments of a project have, the newest Build and the draft.
func (p *Perimeter) Builds(ctx context.Context, projectID string) ([]BuildView, error) {
	_, s, _, err := p.ProjectState(ctx, projectID)
	if err != nil {
		return nil, err
	}
	list := []BuildView{}
	for _, name := range []string{project.Production, project.Staging} {
		e := s.Environment(name)
		if e.Build != nil {
			list = append(list, viewBuild(name, *e.Build, e.Selected == project.SelectedBuild, false))
		}
		if e.Draft != nil {
			list = append(list, viewBuild(name, *e.Draft, e.Selected == project.SelectedDraft, false))
		}
	}
	return list, nil
}
