{{/* What the pods of dashboard, workers and migrations have in common. */}}

{{/*
The database's address, as River UI and libpq name it. Takes (dict "database" … "file" whether the Secret is read from a
file).
*/}}
{{- define "riverui.databaseEnv" -}}
{{- $database := .database -}}
{{- if $database.host }}
- name: PGHOST
  value: {{ $database.host | quote }}
- name: PGPORT
  value: {{ $database.port | quote }}
- name: PGDATABASE
  value: {{ $database.name | quote }}
- name: PGUSER
  value: {{ $database.user | quote }}
- name: PGSSLMODE
  value: {{ $database.sslmode | quote }}
{{- if .file }}
- name: DATABASE_PASSWORD_FILE
  value: /etc/riverui/database/{{ $database.passwordKey }}
{{- else }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ $database.existingSecret }}
      key: {{ $database.passwordKey }}
{{- end }}
{{- else if .file }}
- name: DATABASE_URL_FILE
  value: /etc/riverui/database/{{ $database.urlKey }}
{{- else }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ $database.existingSecret }}
      key: {{ $database.urlKey }}
{{- end }}
{{- with $database.schema }}
- name: RIVER_SCHEMA
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{/* A Secret's one key as a volume: readable for the container's group, and renewed when the Secret changes. */}}
{{- define "riverui.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      - key: {{ .key }}
        path: {{ .key }}
{{- end }}

{{/* The Secret as a file, where it is read from one. */}}
{{- define "riverui.databaseVolume" -}}
{{- $key := ternary .passwordKey .urlKey (ne (default "" .host) "") -}}
{{- include "riverui.secretVolume" (dict "name" "database" "secret" .existingSecret "key" $key) -}}
{{- end }}

{{/* Says what is missing where nothing names the database. */}}
{{- define "riverui.needsDatabase" -}}
{{- if not .existingSecret }}
{{- fail "database.existingSecret is empty: name a Secret of this namespace that holds the database's address (key DATABASE_URL), such as: kubectl create secret generic river-database --from-literal=DATABASE_URL=postgres://user:password@host/database" }}
{{- end }}
{{- if and .host (not (and .name .user)) }}
{{- fail "database.host is set, so database.name and database.user must be too (the password is read from database.existingSecret)" }}
{{- end }}
{{- end }}

{{/* Where pods run and as whom. Takes (dict "root" $ "pod" values with nodeSelector, … "component" …). */}}
{{- define "riverui.podSettings" -}}
{{- $component := dict "root" .root "component" .component -}}
automountServiceAccountToken: false
# A Service called riverui-health would otherwise set RIVERUI_HEALTH_PORT.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .pod.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $own := dict "labelSelector" (dict "matchLabels" (include "riverui.selector" $component | fromYaml)) }}
  - {{- toYaml (merge (deepCopy .) $own) | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A map of names and values as a container's environment. */}}
{{- define "riverui.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ ternary ($value | int64) $value (kindIs "float64" $value) | toString | quote }}
{{- end }}
{{- end }}
