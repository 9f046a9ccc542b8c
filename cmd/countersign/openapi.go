package main

import "countersign/internal/channel"

type openapiCommand struct{}

func (openapiCommand) Help() string {
	return `The document (OpenAPI 3.1) is produced from the code that serves and validates.

Example: countersign openapi`
}

func (openapiCommand) Run(s streams) error {
	document, err := channel.Document()
	if err != nil {
		return err
	}
	_, err = s.Out.Write(document)
	return err
}
