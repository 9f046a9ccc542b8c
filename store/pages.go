package store

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"time"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// templates holds one set for each page, all with the same base.
var templates = func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(template.FuncMap{"when": when}).ParseFS(pageFiles, "pages/base.html"))
	set := map[string]*template.Template{}
	for _, name := range []string{"list", "product", "cart", "checkout", "order", "refused", "missing"} {
		set[name] = template.Must(template.Must(base.Clone()).ParseFS(pageFiles, "pages/"+name+".html"))
	}
	return set
}()

// page is what the base layout shows around the content.
type page struct {
	Title   string
	Items   int64  // in the cart of the session
	Session string // empty for a visitor
	Content any
}

func (s *Store) pages(mux *http.ServeMux) {
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if info, err := fs.Stat(static, name); err != nil || info.IsDir() {
			s.nowhere(w, r)
			return
		}
		http.ServeFileFS(w, r, static, name)
	})
	mux.HandleFunc("GET /{$}", s.page("list", s.listPage))
	mux.HandleFunc("GET /products/{id}", s.page("product", s.productPage))
	mux.HandleFunc("GET /cart", s.page("cart", s.cartPage))
	mux.HandleFunc("GET /checkout", s.page("checkout", s.checkoutPage))
	mux.HandleFunc("GET /orders/{id}", s.page("order", s.orderPage))
}

// show finds the content of a page. An empty title means that there is nothing.
type show func(ctx context.Context, q queryer, of *session, r *http.Request) (title string, content any, err error)

func (s *Store) page(name string, show show) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.showPage(w, r, name, http.StatusOK, show) }
}

// explain is the page behind a button that was pressed without a permit.
func (s *Store) explain(w http.ResponseWriter, r *http.Request) {
	s.showPage(w, r, "refused", http.StatusUnauthorized, func(_ context.Context, _ queryer, _ *session, r *http.Request) (string, any, error) {
		return "Nothing happened", r.Method + " " + r.URL.Path, nil
	})
}

// showPage renders what show finds, all of one moment.
func (s *Store) showPage(w http.ResponseWriter, r *http.Request, name string, status int, show show) {
	p, err := func() (page, error) {
		tx, err := s.read.BeginTx(r.Context(), nil)
		if err != nil {
			return page{}, err
		}
		defer tx.Rollback()
		of, err := s.session(r.Context(), tx, r)
		if err != nil {
			return page{}, err
		}
		var p page
		if of != nil {
			p.Session = of.id
			if p.Items, err = itemsInCart(r.Context(), tx, of); err != nil {
				return page{}, err
			}
		}
		p.Title, p.Content, err = show(r.Context(), tx, of, r)
		return p, err
	}()
	if err != nil {
		s.log.Error("store: page failed", "path", r.URL.Path, "error", err)
		http.Error(w, "The store could not show this page.", http.StatusInternalServerError)
		return
	}
	if p.Title == "" {
		name, status, p.Title, p.Content = "missing", http.StatusNotFound, "Not here", nil
	}
	if r.Method == http.MethodGet && len(r.CookiesNamed(visitorCookie)) == 0 {
		http.SetCookie(w, s.cookie(visitorCookie, randomValue(), 30*24*time.Hour))
	}
	s.render(w, name, status, p)
}

func (s *Store) render(w http.ResponseWriter, name string, status int, p page) {
	var b bytes.Buffer
	if err := templates[name].ExecuteTemplate(&b, "base", p); err != nil {
		s.log.Error("store: page failed", "page", name, "error", err)
		http.Error(w, "The store could not show this page.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// when writes a time of the API for people.
func when(s string) string {
	t, err := time.Parse(timeLayout, s)
	if err != nil {
		return s
	}
	return t.Format("2 January 2006, 15:04 UTC")
}

func itemsInCart(ctx context.Context, q queryer, of *session) (n int64, err error) {
	if err := q.QueryRowContext(ctx, `SELECT coalesce(sum(quantity), 0) FROM cart_lines WHERE sid = $1`, of.id).Scan(&n); err != nil {
		return 0, fmt.Errorf("store: cart: %w", err)
	}
	return n, nil
}

func (s *Store) listPage(ctx context.Context, q queryer, _ *session, _ *http.Request) (string, any, error) {
	list, err := products(ctx, q)
	return "Products", list, err
}

func (s *Store) productPage(ctx context.Context, q queryer, _ *session, r *http.Request) (string, any, error) {
	p, err := findProduct(ctx, q, r.PathValue("id"))
	if p == nil || err != nil {
		return "", nil, err
	}
	return p.Name, struct {
		*product
		Shipping cents
		Quantity []int
	}{p, shippingCents, []int{1, 2, 3}}, nil
}

func (s *Store) cartPage(ctx context.Context, q queryer, of *session, _ *http.Request) (string, any, error) {
	c := cart{}
	if of != nil {
		var err error
		if c, err = s.loadCart(ctx, q, of); err != nil {
			return "", nil, err
		}
	}
	refs, err := addressRefs(ctx, q)
	return "Cart", struct {
		cart
		AddressRefs []string
		Shipping    cents
	}{c, refs, shippingCents}, err
}

func (s *Store) checkoutPage(ctx context.Context, q queryer, of *session, _ *http.Request) (string, any, error) {
	var c *checkout
	if of != nil {
		now, err := s.loadCart(ctx, q, of)
		if err != nil {
			return "", nil, err
		}
		c = now.Checkout
	}
	return "Checkout", c, nil
}

func (s *Store) orderPage(ctx context.Context, q queryer, of *session, r *http.Request) (string, any, error) {
	if of == nil {
		return "", nil, nil
	}
	o, err := findOrder(ctx, q, of, r.PathValue("id"))
	if o == nil || err != nil {
		return "", nil, err
	}
	return "Order " + o.ID, o, nil
}
