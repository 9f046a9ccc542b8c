package edge

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"countersign/internal/authority"
	"countersign/internal/identity"
)

// BearerGuard lets in requests with a restricted run token. Cookies are not
// looked at (H-139). lookup returns the credential of a token,
// identity.ErrUnauthenticated, or a denial such as CREDENTIAL_MISUSE. The
// credential is in the request's context, see [CredentialFrom].
func BearerGuard(lookup func(ctx context.Context, token string) (identity.Credential, error)) Guard {
	check := func(r *http.Request) (*http.Request, error) {
		token, found := Bearer(r)
		if !found {
			return nil, Refuse(AuthenticationRequired, "").With("WWW-Authenticate", `Bearer realm="countersign"`)
		}
		c, err := lookup(r.Context(), token)
		if errors.Is(err, identity.ErrUnauthenticated) {
			return nil, Refuse(AuthenticationRequired, "").With("WWW-Authenticate", `Bearer realm="countersign", error="invalid_token"`)
		}
		if err != nil {
			return nil, err
		}
		return r.WithContext(context.WithValue(r.Context(), credentialKey{}, c)), nil
	}
	return Guard{[]string{AuthenticationRequired, authority.CredentialMisuse}, check}
}

// Bearer returns the token of the one Authorization header (RFC 6750). The scheme
// may be written in any case, the token stands behind one space.
func Bearer(r *http.Request) (string, bool) {
	if len(r.Header["Authorization"]) != 1 {
		return "", false
	}
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, found && token != "" && strings.EqualFold(scheme, "Bearer")
}

type credentialKey struct{}

// CredentialFrom returns the credential that [BearerGuard] let in; its Subject is
// the run.
func CredentialFrom(ctx context.Context) (identity.Credential, bool) {
	c, ok := ctx.Value(credentialKey{}).(identity.Credential)
	return c, ok
}
