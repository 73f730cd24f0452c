"""Addresses of the shop."""

from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from . import views

# So that curl can place orders.
urlpatterns = [
    path("orders/", csrf_exempt(views.order)),
    path("quick-orders/", csrf_exempt(views.quick_order)),
]
