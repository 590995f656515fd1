package skills_test

import (
	"testing"

	"palyra/internal/skill/registry"
	"palyra/internal/skill/registry/registrytest"
	"palyra/internal/sqlite/skills"
	"palyra/internal/sqlite/sqlitetest"
)

func TestStore(t *testing.T) {
	registrytest.RunStore(t, func(t *testing.T) registry.Store { return skills.New(sqlitetest.Open(t)) })
}
