package dispatch

import (
	"errors"
	"fmt"
	"net/http"

	"countersign/internal/canon"
)

// Answer is an HTTP answer to a dispatched request, as the shop writes it and as
// [Client.Send] returns it.
type Answer struct {
	Status    int
	Body      []byte
	Receipt   string   // compact JWS, empty when there is none
	SetCookie []string // Set-Cookie header values
}

// Write sends the answer. Bodies are JSON, application/problem+json from status
// 400 on. Errors of the connection are the sender's to notice: an answer that is
// lost is settled by a probe.
func (a Answer) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if a.Status >= 400 {
		h.Set("Content-Type", "application/problem+json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.Receipt != "" {
		h.Set(ReceiptHeader, a.Receipt)
	}
	for _, c := range a.SetCookie {
		h.Add("Set-Cookie", c)
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body)
}

type problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	ReasonCode string `json:"reasonCode"`
	Check      Reason `json:"check,omitempty"` // which check of a permit failed
}

// Problem is an error answer (RFC 9457) with the member reasonCode. The words are
// the program's own: it panics on text that is not UTF-8.
func Problem(status int, reasonCode, detail string) Answer {
	return problemAnswer(problem{Status: status, ReasonCode: reasonCode, Detail: detail})
}

// problemAnswer is for problems whose words the program chose.
func problemAnswer(p problem) Answer {
	a, err := encodeProblem(p)
	if err != nil {
		panic(err)
	}
	return a
}

func encodeProblem(p problem) (Answer, error) {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	body, err := canon.Marshal(p)
	return Answer{Status: p.Status, Body: body}, err
}

// AnswerError maps the errors of this package to answers: no permit 401, another
// permit error 403, a body that cannot be read 400 or 413. Every other error is a
// 500 that does not show the error; log it.
func AnswerError(err error) Answer {
	var permit *PermitError
	var request *RequestError
	switch {
	case errors.As(err, &permit) && permit.Reason == Missing:
		return problemAnswer(problem{Status: 401, ReasonCode: "DISPATCH_PERMIT_REQUIRED", Check: Missing,
			Detail: "Nothing happened: a change here needs a dispatch permit in the header " + PermitHeader + "."})
	case errors.As(err, &permit):
		return problemAnswer(problem{Status: 403, ReasonCode: "DISPATCH_PERMIT_INVALID", Check: permit.Reason,
			Detail: fmt.Sprintf("Nothing happened: the dispatch permit does not pass the check %q.", permit.Reason)})
	case errors.As(err, &request):
		return Problem(400, "INVALID_REQUEST", "Nothing happened: "+request.Reason+".")
	case errors.Is(err, ErrBodyTooLarge):
		return Problem(413, "BODY_TOO_LARGE", fmt.Sprintf("Nothing happened: a body has at most %d bytes.", MaxBody))
	}
	return Problem(500, "INTERNAL", "The shop could not finish. Ask with a probe what happened.")
}
