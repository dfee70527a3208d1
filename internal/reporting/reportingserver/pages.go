package reportingserver

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

const (
	// rows is how many rows a list of a page has.
	rows = 50
	// few is how many events the page of a project shows.
	few = 10
)

// pages adds the pages to mux.
func (s *Server) pages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.page(s.projectsPage))
	mux.HandleFunc("GET /projects/{id}", s.page(s.projectPage))
	mux.HandleFunc("GET /projects/{id}/events", s.page(s.eventsPage))
	mux.HandleFunc("GET /projects/{id}/resources/{type}/{resource}", s.page(s.resourcePage))
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		// A link with the token is for the terminal of a development machine.
		if r.URL.Query().Has("token") {
			s.login(w, r)
			return
		}
		s.showLogin(w, r, http.StatusOK, false)
	})
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, pageFiles, "pages/style.css")
	})
}

// view is what a page shows.
type view struct {
	template string
	data     any
}

// page shows a view to who is signed in.
func (s *Server) page(make func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.session.open() && !s.session.cookie(r, s.opts.Now()) {
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		}
		v, err := make(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.show(w, r, http.StatusOK, v)
	}
}

func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, v view) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, v.template, v.data); err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone is no matter
}

func (s *Server) showLogin(w http.ResponseWriter, r *http.Request, status int, wrong bool) {
	s.show(w, r, status, view{"login.html", struct {
		Next  string
		Wrong bool
	}{r.FormValue("next"), wrong}})
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	k, ok := s.session.token(strings.TrimSpace(r.FormValue("token")))
	if !ok && !s.session.open() {
		s.showLogin(w, r, http.StatusUnauthorized, true)
		return
	}
	if ok {
		http.SetCookie(w, k.newCookie(s.opts.Now(), r.TLS != nil))
	}
	// Only a path of this server: a foreign one could pass for these pages.
	next, err := url.Parse(r.FormValue("next"))
	if err != nil || next.Scheme != "" || next.Host != "" || !strings.HasPrefix(next.Path, "/") || strings.HasPrefix(next.Path, "//") ||
		strings.Contains(r.FormValue("next"), `\`) {
		next = &url.URL{Path: "/"}
	}
	http.Redirect(w, r, next.RequestURI(), http.StatusSeeOther)
}

func (s *Server) projectsPage(r *http.Request) (view, error) {
	type line struct {
		store.Project
		Count store.Count
	}
	f := store.ProjectFilter{Limit: rows + 1}
	if err := readToken(pageToken(r), &f.After); err != nil {
		return view{}, invalid("%v", err)
	}
	projects, err := s.store.Projects(r.Context(), f)
	if err != nil {
		return view{}, err
	}
	counts, err := s.store.Counts(r.Context())
	if err != nil {
		return view{}, err
	}
	var data struct {
		Projects []line
		More     string
	}
	for i, p := range projects {
		if i == rows {
			data.More = newToken(projects[i-1])
			break
		}
		data.Projects = append(data.Projects, line{p, counts[p.Num]})
	}
	return view{"projects.html", data}, nil
}

func pageToken(r *http.Request) *string {
	if t := r.URL.Query().Get("page_token"); t != "" {
		return &t
	}
	return nil
}

// periodOf is the period that a page is asked for: this month by default.
func (s *Server) periodOf(r *http.Request) (usage.Period, error) {
	now := s.opts.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	p := usage.Period{From: month, To: month.AddDate(0, 1, 0), AsOf: now}
	var errs []error
	if v := r.URL.Query().Get("month"); v != "" {
		t, err := time.Parse(monthOnly, v)
		errs = append(errs, err, inRange("month", &t))
		p.From, p.To = t, t.AddDate(0, 1, 0)
	}
	for _, f := range []struct {
		name string
		to   *time.Time
	}{{"from", &p.From}, {"to", &p.To}} {
		if v := r.URL.Query().Get(f.name); v != "" {
			t, err := time.Parse(time.DateOnly, v)
			*f.to = t
			errs = append(errs, err, inRange(f.name, &t))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return p, invalid("%v", err)
	}
	if p.To.Before(p.From) {
		return p, invalid("to: %s is before from %s", p.To.Format(time.DateOnly), p.From.Format(time.DateOnly))
	}
	return p, nil
}

func (s *Server) projectPage(r *http.Request) (view, error) {
	ctx, id := r.Context(), r.PathValue("id")
	period, err := s.periodOf(r)
	if err != nil {
		return view{}, err
	}
	var after *usageKey
	if err := readToken(pageToken(r), &after); err != nil {
		return view{}, invalid("%v", err)
	}
	var data struct {
		Title         string
		Usage         api.Usage
		Now           []api.ResourceState
		NowMore       bool
		Relations     []store.Relation
		RelationsMore bool
		Names         map[string]string
		Events        []store.Event
		Months        months
	}
	if data.Usage, err = s.usage(ctx, id, period, after, rows); err != nil {
		return view{}, err
	}
	project, err := s.store.Project(ctx, id)
	if err != nil {
		return view{}, err
	}
	living, err := s.store.Living(ctx, project, period.AsOf, rows+1)
	if err != nil {
		return view{}, err
	}
	if data.NowMore = len(living) > rows; data.NowMore {
		living = living[:rows]
	}
	for _, res := range living {
		if state, ok := resourceAt(res, period.AsOf); ok && state.Alive {
			data.Now = append(data.Now, state)
		}
	}
	data.Title = data.Usage.Project.Platform + " " + data.Usage.Project.ExternalID
	if data.Relations, err = s.store.Relations(ctx, store.RelationFilter{Project: project, From: true, To: true, Limit: rows + 1}); err != nil {
		return view{}, err
	}
	if data.RelationsMore = len(data.Relations) > rows; data.RelationsMore {
		data.Relations = data.Relations[:rows]
	}
	data.Names = map[string]string{}
	for _, rel := range data.Relations {
		for _, other := range []string{rel.SourceID, rel.TargetID} {
			p, err := s.store.Project(ctx, other)
			if err != nil {
				return view{}, err
			}
			data.Names[other] = p.Platform + " " + p.ExternalID
		}
	}
	data.Events, _, err = s.newest(r, store.EventFilter{ProjectID: id}, few)
	data.Months = monthsOf(period, data.Events)
	return view{"project.html", data}, err
}

// newest lists the newest arrivals and the token of the page with older ones.
func (s *Server) newest(r *http.Request, f store.EventFilter, n int) (events []store.Event, older string, err error) {
	f.Newest, f.Limit = true, n+1
	events, err = s.store.Events(r.Context(), f)
	if len(events) > n {
		events = events[:n]
		older = newToken(events[n-1].Seq)
	}
	return events, older, err
}

func (s *Server) eventsPage(r *http.Request) (view, error) {
	project, err := s.store.Project(r.Context(), r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	f := store.EventFilter{ProjectID: project.ID, ResourceType: q.Get("resource_type"), ResourceID: q.Get("resource_id"), Type: q.Get("type")}
	errs := []error{readToken(pageToken(r), &f.After)}
	for name, to := range map[string]**time.Time{"from": &f.From, "to": &f.To} {
		if v := q.Get(name); v != "" {
			t, err := time.Parse(time.DateOnly, v)
			*to = &t
			errs = append(errs, err, inRange(name, &t))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return view{}, invalid("%v", err)
	}
	var data struct {
		Title    string
		Project  store.Project
		Filter   store.EventFilter
		Filtered bool
		Events   []store.Event
		Older    string
	}
	data.Title, data.Project, data.Filter = "Events", project, f
	data.Filtered = f.ResourceType != "" || f.ResourceID != "" || f.Type != "" || f.From != nil || f.To != nil
	var token string
	if data.Events, token, err = s.newest(r, f, rows); token != "" {
		q.Set("page_token", token)
		data.Older = "?" + q.Encode()
	}
	return view{"events.html", data}, err
}

func (s *Server) resourcePage(r *http.Request) (view, error) {
	project, err := s.store.Project(r.Context(), r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	typ, id := r.PathValue("type"), r.PathValue("resource")
	var data struct {
		Title      string
		Project    store.Project
		Timeline   usage.Timeline
		Events     []store.Event
		EventsMore bool
	}
	data.Title, data.Project = typ+" "+id, project
	found := false
	for res, err := range s.store.Timelines(r.Context(), store.ResourceFilter{ProjectID: project.ID, Type: typ, IDs: []string{id}}) {
		if err != nil {
			return view{}, err
		}
		data.Timeline, found = res.Timeline, true
	}
	if !found {
		return view{}, notFound("no event is about %s %s of this project", typ, id)
	}
	var older string
	data.Events, older, err = s.newest(r, store.EventFilter{ProjectID: project.ID, ResourceType: typ, ResourceID: id}, rows)
	data.EventsMore = older != ""
	return view{"resource.html", data}, err
}
