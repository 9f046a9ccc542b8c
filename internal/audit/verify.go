package audit

import (
	"io"

	"countersign/dispatch"
	"countersign/evidence"
)

// Options of a verification.
type Options struct {
	// Keys are the trusted evidence keys, at least one.
	Keys evidence.Keys
	// StoreKeys are the store's receipt keys as known from elsewhere; nil: as
	// attested by the control plane in run.created.
	StoreKeys []dispatch.TrustedKey
	// Head is a head known from elsewhere; zero: none.
	Head evidence.Link
	// Batch checks the signatures of events and export by [ZIP215], which is
	// quicker. Those of the store's receipts are always checked one by one.
	Batch bool
}

// Verify verifies one export. Like [evidence.Verify] it returns an error only
// when there is nothing to report on.
func Verify(r io.Reader, o Options) (*Report, error) {
	var m machine
	receipts := newReceipts(o.StoreKeys)
	var batch *evidence.Batch
	if o.Batch {
		batch = &ZIP215
	}
	var keys keyIDs
	for _, k := range o.Keys {
		keys.given = append(keys.given, evidence.KeyID(k.Public))
	}
	integrity, err := evidence.Verify(r, o.Keys, evidence.Options{Head: o.Head, Batch: batch, Each: func(e evidence.Event) error {
		m.apply(e)
		receipts.apply(e)
		keys.name(e.KeyID)
		return nil
	}})
	if err != nil {
		return nil, err
	}
	keys.name(integrity.KeyID)
	report := &Report{Report: integrity, Receipts: receipts.end(), Lawfulness: m.lawfulness(integrity.Subject), Boundary: append([]string{}, m.boundary...), keys: keys}
	report.CannotShow = cannotShow(report.CannotShow, report.Subject.Kind, report.Receipts.Keys, report.Receipts.Stated)
	report.Verified = report.OK()
	return report, nil
}
