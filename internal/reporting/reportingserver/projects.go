package reportingserver

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
)

const maxName = 512

var word = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func created(is bool) int {
	if is {
		return http.StatusCreated
	}
	return http.StatusOK
}

// CreateProject makes a project or finds it.
func (s *Server) CreateProject(w http.ResponseWriter, r *http.Request) {
	var c api.ProjectCreate
	if !s.readBody(w, r, &c) {
		return
	}
	var errs []error
	if !word.MatchString(c.Platform) {
		errs = append(errs, fmt.Errorf("platform: %q is not a name such as hetzner: want %s", c.Platform, word))
	}
	if c.ExternalID == "" || len(c.ExternalID) > maxName {
		errs = append(errs, fmt.Errorf("external_id: has %d bytes: want 1 to %d", len(c.ExternalID), maxName))
	}
	if len(c.Name) > maxName {
		errs = append(errs, fmt.Errorf("name: has %d bytes: want at most %d", len(c.Name), maxName))
	}
	if err := errors.Join(errs...); err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	p, isNew, err := s.store.CreateProject(r.Context(), c)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, created(isNew), p.Project)
}

// ListProjects lists projects.
func (s *Server) ListProjects(w http.ResponseWriter, r *http.Request, p api.ListProjectsParams) {
	limit, err := limitOf(p.Limit)
	f := store.ProjectFilter{Platform: text(p.Platform), ExternalID: text(p.ExternalID), Limit: limit + 1}
	if err := errors.Join(err, readToken(p.PageToken, &f.After)); err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	projects, err := s.store.Projects(r.Context(), f)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := api.ProjectList{Items: []api.Project{}}
	for i, p := range projects {
		if i == limit {
			out.NextPageToken = newToken(projects[i-1])
			break
		}
		out.Items = append(out.Items, p.Project)
	}
	answer(w, http.StatusOK, out)
}

// GetProject reads a project.
func (s *Server) GetProject(w http.ResponseWriter, r *http.Request, id api.ProjectID) {
	p, err := s.store.Project(r.Context(), id)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, p.Project)
}

// CreateRelation relates two projects or finds the relation.
func (s *Server) CreateRelation(w http.ResponseWriter, r *http.Request, id api.ProjectID) {
	var c api.RelationCreate
	if !s.readBody(w, r, &c) {
		return
	}
	errs := []error{inRange("valid_from", c.ValidFrom)}
	if !word.MatchString(c.RelationType) {
		errs = append(errs, fmt.Errorf("relation_type: %q is not a name such as infrastructure_tenant: want %s", c.RelationType, word))
	}
	if len(c.Key) > maxName {
		errs = append(errs, fmt.Errorf("key: has %d bytes: want at most %d", len(c.Key), maxName))
	}
	if c.TargetID == id {
		errs = append(errs, errors.New("target_id: is the project itself"))
	}
	if err := errors.Join(errs...); err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	rel, isNew, err := s.store.CreateRelation(r.Context(), id, c)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, created(isNew), rel.Relation)
}

// CloseRelation sets the end of a relation.
func (s *Server) CloseRelation(w http.ResponseWriter, r *http.Request, id api.ProjectID, relation string) {
	var c api.RelationClose
	if !s.readBody(w, r, &c) {
		return
	}
	if err := inRange("valid_to", &c.ValidTo); err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	rel, err := s.store.CloseRelation(r.Context(), id, relation, c.ValidTo)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, rel.Relation)
}

// ListRelations lists the relations of a project.
func (s *Server) ListRelations(w http.ResponseWriter, r *http.Request, id api.ProjectID, p api.ListRelationsParams) {
	limit, err := limitOf(p.Limit)
	direction := api.Both
	if p.Direction != nil {
		direction = *p.Direction
	}
	if !direction.Valid() {
		err = errors.Join(err, fmt.Errorf("direction: %q is unknown: want from, to or both", direction))
	}
	f := store.RelationFilter{From: direction != api.To, To: direction != api.From, Type: text(p.RelationType), Key: p.Key, At: p.At, Limit: limit + 1}
	if err := errors.Join(err, inRange("at", p.At), readToken(p.PageToken, &f.After)); err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	if f.Project, err = s.store.Project(r.Context(), id); err != nil {
		s.fail(w, r, err)
		return
	}
	relations, err := s.store.Relations(r.Context(), f)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := api.RelationList{Items: []api.Relation{}}
	for i, rel := range relations {
		if i == limit {
			out.NextPageToken = newToken(relations[i-1].Num)
			break
		}
		out.Items = append(out.Items, rel.Relation)
	}
	answer(w, http.StatusOK, out)
}
