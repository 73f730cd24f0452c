{{/* Names, labels, images. */}}

{{- define "riverui.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 30 | trimSuffix "-" }}
{{- end }}

{{/* What every object's name begins with: short enough for "-worker-" and a worker's name behind it. */}}
{{- define "riverui.fullname" -}}
{{- $name := include "riverui.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 30 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 30 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 30 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* By which Services, budgets and policies find their pods. Takes (dict "root" $ "component" …). */}}
{{- define "riverui.selector" -}}
app.kubernetes.io/name: {{ include "riverui.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "riverui.labels" -}}
{{ include "riverui.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: riverui
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "riverui.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "riverui.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* repository:tag@digest, of which a digest decides. Takes (dict "image" … "tag" the default tag). */}}
{{- define "riverui.image" -}}
{{- $tag := default .tag .image.tag -}}
{{- .image.repository -}}
{{- if $tag }}:{{ $tag }}{{ end -}}
{{- if .image.digest }}@{{ .image.digest }}{{ end -}}
{{- end }}

{{/* The values of a worker with workerDefaults below them. Takes (dict "root" $ "worker" …); answers JSON. */}}
{{- define "riverui.worker" -}}
{{- mergeOverwrite (deepCopy .root.Values.workerDefaults) (deepCopy .worker) | toJson -}}
{{- end }}

{{- define "riverui.workerName" -}}
{{- printf "%s-worker-%s" (include "riverui.fullname" .root) .worker.name -}}
{{- end }}
