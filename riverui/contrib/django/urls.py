"""The dashboard's addresses: `path("riverui/", include("riverui.contrib.django.urls"))`."""

from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from riverui.contrib.django import views

app_name = "riverui"

# The dashboard has its own check against requests of other sites' pages.
urlpatterns = [
    path("sign-out", csrf_exempt(views.sign_out), name="sign_out"),
    path("", csrf_exempt(views.dashboard), name="dashboard"),
    re_path(r"^(?P<path>(?s:.+))\Z", csrf_exempt(views.dashboard)),
]
