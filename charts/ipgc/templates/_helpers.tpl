{{- define "ipgc.selector" -}}
app.kubernetes.io/name: ipgc
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "ipgc.labels" -}}
{{ include "ipgc.selector" . }}
{{ include "ipgc.about" . }}
{{- end }}

{{- define "ipgc.about" -}}
app.kubernetes.io/part-of: ipgc
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "ipgc.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Binds a role of the release's name, with a suffix, to its account. */ -}}
{{- define "ipgc.bind" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .top.Release.Name | quote }}
    namespace: {{ .top.Release.Namespace | quote }}
{{- end }}

{{- /* Where a pod of ipgc may run, and where its image comes from. */ -}}
{{- define "ipgc.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "ipgc.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "ipgc.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* What the collector and the audit must agree on. */ -}}
{{- define "ipgc.env" -}}
{{- with .Values.poolNamespace }}
- name: WHEREABOUTS_NAMESPACE
  value: {{ . | quote }}
{{- end }}
{{- range $flag, $value := .Values.flags }}
- name: IPGC_{{ $flag | upper | replace "-" "_" }}
  {{- /* helm reads numbers of a file as floats: 1e+06. */}}
  value: {{ kindIs "string" $value | ternary $value ($value | toJson) | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
