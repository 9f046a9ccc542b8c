package store

import (
	"context"
	"database/sql"
	"errors"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"countersign/dispatch"
)

// mutation is one change, decoded and not done yet. of is the permit's session,
// except for a new session, which has none yet.
type mutation func(ctx context.Context, tx *sql.Tx, p dispatch.Permit, of *session) (reply, error)

// reply is what a mutation did.
type reply struct {
	status               int
	body                 any
	orderID, amountCents string
	cookie               *http.Cookie
}

// commitTimeout ends a transaction whether or not the sender still waits.
const commitTimeout = 5 * time.Second

// Handler serves the API and the pages.
func (s *Store) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/sessions", s.mutate(s.openSession, anySession))
	mux.HandleFunc("POST /api/cart/items", s.mutate(s.addItem, ownSession))
	mux.HandleFunc("POST /api/cart/items/remove", s.mutate(s.removeItem, ownSession))
	mux.HandleFunc("POST /api/checkouts", s.mutate(s.prepareCheckout, ownSession))
	mux.HandleFunc("POST /api/orders", s.mutate(s.placeOrder, ownSession))
	mux.HandleFunc("POST "+dispatch.ClosePath, s.answer(s.closeDispatch))
	mux.HandleFunc("GET /api/catalog", s.look(s.getCatalog))
	mux.HandleFunc("GET /api/products/{id}", s.look(s.getProduct))
	mux.HandleFunc("GET /api/cart", s.look(s.getCart))
	mux.HandleFunc("GET /api/orders/{id}", s.look(s.getOrder))
	s.pages(mux)
	mux.HandleFunc("/", s.nowhere)
	return s.guard(mux)
}

var notFound = dispatch.Problem(http.StatusNotFound, "NOT_FOUND", "There is nothing under this address.")

// guard sets the headers of every answer and makes a mix-up of hosts loud: when
// the control plane's cookie arrives here, a browser would send ours there.
func (s *Store) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		if len(r.CookiesNamed(ownerCookie)) > 0 && s.without != "FOREIGN_COOKIE" {
			dispatch.Problem(http.StatusBadRequest, "FOREIGN_COOKIE",
				"A cookie of the control plane arrived at the store. Serve the two under different host names.").Write(w)
			return
		}
		if !isClean(r.URL.EscapedPath()) && s.without != "NOT_FOUND" {
			// The mux would redirect, and a redirected POST is a second request.
			s.nowhere(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isClean(p string) bool {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean == p
}

// nowhere answers for an address that there is not.
func (s *Store) nowhere(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, "/api/") {
		notFound.Write(w)
		return
	}
	s.showPage(w, r, "missing", http.StatusNotFound, func(context.Context, queryer, *session, *http.Request) (string, any, error) {
		return "", nil, nil
	})
}

// answer runs an API call and writes its answer. A browser that pressed a button
// gets the page that explains.
func (s *Store) answer(call func(*http.Request) (dispatch.Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := call(r)
		if err != nil {
			a = answerError(err)
			if a.Status == http.StatusInternalServerError {
				s.log.Error("store: request failed", "method", r.Method, "path", r.URL.Path, "error", err)
			}
			if a.Status == http.StatusUnauthorized && r.Method == http.MethodPost && strings.Contains(r.Header.Get("Accept"), "text/html") {
				s.explain(w, r)
				return
			}
		}
		a.Write(w)
	}
}

// Which session a mutation wants of its cookie.
const (
	anySession = false
	ownSession = true
)

func (s *Store) mutate(decode func([]byte) (mutation, error), own bool) http.HandlerFunc {
	return s.answer(func(r *http.Request) (dispatch.Answer, error) {
		p, body, err := s.permitted(r)
		if err != nil {
			return dispatch.Answer{}, err
		}
		m, err := decode(body)
		if err != nil {
			return dispatch.Answer{}, err
		}
		var cookie *http.Cookie
		a, err := s.commit(r, func(ctx context.Context, tx *sql.Tx) (dispatch.Answer, error) {
			of, err := s.session(ctx, tx, r)
			if err != nil {
				return dispatch.Answer{}, err
			}
			if own && (of == nil || of.id != p.Session && s.without != string(dispatch.SessionMismatch)) {
				return dispatch.Answer{}, &dispatch.PermitError{Reason: dispatch.SessionMismatch}
			}
			return s.ledger.Spend(ctx, tx, p, func() (dispatch.Effect, error) {
				done, err := m(ctx, tx, p, of)
				if err != nil {
					return dispatch.Effect{}, err
				}
				document, err := dispatch.Encode(done.body)
				cookie = done.cookie
				return dispatch.Effect{Status: done.status, Body: document, OrderID: done.orderID, AmountCents: done.amountCents}, err
			})
		})
		if err == nil && cookie != nil {
			a.SetCookie = []string{cookie.String()}
		}
		return a, err
	})
}

// closeDispatch answers a probe. It asks for no cookie: the session it asks about
// may be the one whose opening was lost.
func (s *Store) closeDispatch(r *http.Request) (dispatch.Answer, error) {
	p, body, err := s.permitted(r)
	if err != nil {
		return dispatch.Answer{}, err
	}
	jti, err := dispatch.ParseCloseBody(body)
	if err != nil {
		return dispatch.Answer{}, err
	}
	return s.commit(r, func(ctx context.Context, tx *sql.Tx) (dispatch.Answer, error) {
		return s.ledger.Close(ctx, tx, p, jti)
	})
}

// permitted returns the verified permit and the body that it is over.
func (s *Store) permitted(r *http.Request) (dispatch.Permit, []byte, error) {
	body, bodyErr := dispatch.ReadBody(r)
	p, err := s.verify(r, body)
	if isMissing(err) {
		return dispatch.Permit{}, nil, err
	}
	if bodyErr != nil {
		return dispatch.Permit{}, nil, bodyErr
	}
	if err != nil {
		return dispatch.Permit{}, nil, err
	}
	if !isJSON(r.Header) && s.without != "CONTENT_TYPE_REJECTED" {
		return dispatch.Permit{}, nil, errContentType
	}
	return p, body, nil
}

// isJSON accepts application/json alone or with charset utf-8, named once and
// without a content encoding: the permit is over the bytes, and these have one
// reading.
func isJSON(h http.Header) bool {
	if len(h["Content-Type"]) != 1 || len(h["Content-Encoding"]) != 0 {
		return false
	}
	kind, params, err := mime.ParseMediaType(h["Content-Type"][0])
	charset, given := params["charset"]
	delete(params, "charset")
	return err == nil && kind == "application/json" && len(params) == 0 && (!given || strings.EqualFold(charset, "utf-8"))
}

func isMissing(err error) bool {
	var permit *dispatch.PermitError
	return errors.As(err, &permit) && permit.Reason == dispatch.Missing
}

var errContentType = errors.New("store: the body is not application/json in UTF-8")

func answerError(err error) dispatch.Answer {
	if errors.Is(err, errContentType) {
		return dispatch.Problem(http.StatusUnsupportedMediaType, "CONTENT_TYPE_REJECTED", "Nothing happened: the body must be application/json in UTF-8, without a content encoding.")
	}
	return dispatch.AnswerError(err)
}

// commit runs step in one transaction and returns its answer once that is
// durable. When the commit fails nobody knows, so there is no receipt.
func (s *Store) commit(r *http.Request, step func(context.Context, *sql.Tx) (dispatch.Answer, error)) (dispatch.Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), commitTimeout)
	defer cancel()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return dispatch.Answer{}, err
	}
	defer tx.Rollback()
	a, err := step(ctx, tx)
	if err != nil {
		return dispatch.Answer{}, err
	}
	s.reached("before commit")
	if err := tx.Commit(); err != nil {
		return dispatch.Answer{}, err
	}
	s.reached("after commit")
	return a, nil
}

// look runs a read of the API under the session cookie.
func (s *Store) look(read func(context.Context, queryer, *session, *http.Request) (any, error)) http.HandlerFunc {
	return s.answer(func(r *http.Request) (dispatch.Answer, error) {
		ctx := r.Context()
		// One transaction, so that all parts of the answer are of one moment.
		tx, err := s.read.BeginTx(ctx, nil)
		if err != nil {
			return dispatch.Answer{}, err
		}
		defer tx.Rollback()
		of, err := s.session(ctx, tx, r)
		if err != nil {
			return dispatch.Answer{}, err
		}
		if of == nil {
			return dispatch.Problem(http.StatusUnauthorized, "AUTHENTICATION_REQUIRED", "This needs the cookie of an open session."), nil
		}
		body, err := read(ctx, tx, of, r)
		if err != nil {
			return dispatch.Answer{}, err
		}
		if body == nil {
			return notFound, nil
		}
		document, err := dispatch.Encode(body)
		return dispatch.Answer{Status: http.StatusOK, Body: document}, err
	})
}

func (s *Store) getCatalog(ctx context.Context, q queryer, _ *session, _ *http.Request) (any, error) {
	list, err := products(ctx, q)
	if err != nil {
		return nil, err
	}
	refs, err := addressRefs(ctx, q)
	return struct {
		Currency      string    `json:"currency"`
		Products      []product `json:"products"`
		AddressRefs   []string  `json:"addressRefs"`
		ShippingCents cents     `json:"shippingCents"`
		TaxCents      cents     `json:"taxCents"`
	}{currency, list, refs, shippingCents, taxCents}, err
}

func (s *Store) getProduct(ctx context.Context, q queryer, _ *session, r *http.Request) (any, error) {
	p, err := findProduct(ctx, q, r.PathValue("id"))
	if p == nil || err != nil {
		return nil, err
	}
	return p, nil
}

func (s *Store) getCart(ctx context.Context, q queryer, of *session, _ *http.Request) (any, error) {
	return s.loadCart(ctx, q, of)
}

func (s *Store) getOrder(ctx context.Context, q queryer, of *session, r *http.Request) (any, error) {
	o, err := findOrder(ctx, q, of, r.PathValue("id"))
	if o == nil || err != nil {
		return nil, err
	}
	return o, nil
}
