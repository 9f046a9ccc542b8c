package console

import (
	"net/http"

	"countersign/internal/console/frame"
	"countersign/internal/limits"
)

// limits is what the protocols foresee and this installation cannot do (G-40, H-235).
func (s *site) limits(*http.Request) (*frame.Page, error) {
	return &frame.Page{Template: "limits", Title: "What is not implemented", Section: "limits", Data: limits.ByProtocol()}, nil
}
