package incident_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"testing"
	"time"

	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// actionDigest is the digest of an action by its definition, written out: lowercase hex
// SHA-256 of the domain, one zero byte, and the RFC 8785 form of the three members.
func actionDigest(incidentID, mitigationID string, version int64) string {
	form := fmt.Sprintf(`{"incidentId":%q,"mitigationId":%q,"resourceVersion":%d}`, incidentID, mitigationID, version)
	sum := sha256.Sum256([]byte("countersign/runbook/1\x00" + form))
	return hex.EncodeToString(sum[:])
}

// G-27: the digest covers incident, mitigation and version, and each of them
// changes it.
func TestDigest(t *testing.T) {
	digest := incident.Digest("restore-pool", 2)
	if want := actionDigest("INC-2841", "restore-pool", 2); digest != want {
		t.Errorf("digest %s, by its definition %s", digest, want)
	}
	for _, other := range []string{incident.Digest("shift-traffic", 2), incident.Digest("restore-pool", 3), actionDigest("INC-2842", "restore-pool", 2)} {
		if other == digest {
			t.Error("another action has the same digest")
		}
	}
	saved := incident.TheIncident.ID
	defer func() { incident.TheIncident.ID = saved }()
	incident.TheIncident.ID = "INC-2842"
	if got := incident.Digest("restore-pool", 2); got != actionDigest("INC-2842", "restore-pool", 2) {
		t.Errorf("the digest of another incident is %s", got)
	}
}

// G-27: staging makes the next version, its digest, and the key of
// session and digest.
func TestStaged(t *testing.T) {
	w := staged(t)
	s := w.state().Staged
	digest := actionDigest("INC-2841", "restore-pool", 2)
	sum := sha256.Sum256([]byte("execute:" + session + ":" + digest))
	if want := "rr_" + hex.EncodeToString(sum[:])[:32]; s.Version != 2 || w.state().Version != 2 || s.Digest != digest || s.IdempotencyKey != want || s.MitigationID != "restore-pool" || s.StagedAt != dawn {
		t.Errorf("staged %+v, want version 2, digest %s, key %s", s, digest, want)
	}
	if incident.Key(session+"0", digest) == s.IdempotencyKey || incident.Key(session, hash("0")) == s.IdempotencyKey {
		t.Error("another session or digest has the same key")
	}
	if w.told[0].ActionDigest == nil || *w.told[0].ActionDigest != digest {
		t.Errorf("the receipt is about %v", w.told[0].ActionDigest)
	}
}

// the id of a session is ses_ and a UUIDv7 of its beginning whose other bits
// are those of the hash that the cookie is kept as.
func TestSessionID(t *testing.T) {
	if want := fmt.Sprintf("ses_%012x7012b456789abcdef012", int64(dawn)); session != want {
		t.Errorf("id %s, want %s", session, want)
	}
	form := regexp.MustCompile(`^ses_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$`)
	for _, digit := range "0123456789abcdef" {
		id := incident.SessionID(dawn, hash(string(digit)))
		if !form.MatchString(id) || !incident.IsSessionID(id, dawn) {
			t.Errorf("%c: %s", digit, id)
		}
	}
	if incident.SessionID(dawn, "1"+cookieHash[1:]) == session || incident.SessionID(dawn+1, cookieHash) == session {
		t.Error("another cookie or time has the same id")
	}
	for name, id := range map[string]string{
		"no id": "", "another prefix": "sid_" + session[4:], "short": session[:35], "long": session + "0", "not a UUIDv7": session[:16] + "4" + session[17:],
		"another variant": session[:20] + "c" + session[21:], "upper case": session[:30] + "ABCDEF", "another time": incident.SessionID(dawn.Add(time.Millisecond), cookieHash),
	} {
		if incident.IsSessionID(id, dawn) {
			t.Errorf("%s: %s passes for one", name, id)
		}
	}
	if got, want := incident.Identity(session), "anonymous browser session "+session[24:]; got != want || len(session[24:]) != 12 {
		t.Errorf("identity %q, want %q", got, want)
	}
}

// A stored session of another machine is refused.
func TestDecode(t *testing.T) {
	w := executed(t)
	s, err := incident.Decode(w.raw)
	if err != nil || string(canon.MustMarshal(s)) != string(w.raw) || s.ID != session || s.Machine != 1 {
		t.Errorf("decoded %+v, %v", s, err)
	}
	s.Machine = 2
	if _, err := incident.Decode(canon.MustMarshal(s)); err == nil {
		t.Error("machine 2 is read")
	}
	if _, err := incident.Decode([]byte(`{"machine":1}`)); err != nil {
		t.Errorf("control: %v", err)
	}
	if _, err := incident.Decode([]byte(`{"machine":1,"more":0}`)); err == nil {
		t.Error("a member too many is read")
	}
}
